package cluster

import (
	"encoding/json"
	"net/http"
)

// refusal is the body of an answer that this package gives itself.
type refusal struct {
	Error string `json:"error"`
	// OwnerID is who may have taken the request.
	OwnerID string `json:"owner_id,omitempty"`
	// TriedOwnerIDs are those that could not take it.
	TriedOwnerIDs []string `json:"tried_owner_ids,omitempty"`
	LimitBytes    int64    `json:"limit_bytes,omitempty"`
}

// answer writes a refusal and returns its status.
func answer(w http.ResponseWriter, status int, body refusal) int {
	text, err := json.Marshal(body)
	if err != nil { // strings and numbers have a form
		status, text = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that is gone is nobody to tell
	return status
}

// answerLater refuses for now: every such answer says when to come back.
func answerLater(w http.ResponseWriter, status int, body refusal) int {
	w.Header().Set("Retry-After", "1")
	return answer(w, status, body)
}
