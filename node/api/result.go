package api

import (
	"io"
	"net/http"
	"net/url"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// result answers with what the job of a key has answered, here or at another node.
func (f look) result(w http.ResponseWriter, r *http.Request) int {
	key, err := f.keyOf(r.URL.RawQuery)
	if err != nil {
		return f.fail(w, r, err)
	}
	text, err := f.Results.Result(r.Context(), key)
	if err != nil {
		return f.resultElsewhere(w, r, key, err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text+"\n") // a client that is gone is nobody to tell
	return http.StatusOK
}

// keyOf reads which key is asked for. The parameters are named as the fields of a job are; with the shared scope the user
// does not count, as there.
func (f *face) keyOf(raw string) (job.Key, error) {
	params, err := url.ParseQuery(raw)
	if err != nil {
		return job.Key{}, fault.New(fault.Invalid, "the query string must be well-formed: %v", err)
	}
	user, name := params.Get("user_id"), params.Get("idempotent_key")
	switch scope := params.Get("idempotency_scope"); {
	case name == "":
		return job.Key{}, fault.New(fault.Invalid, "idempotent_key is required")
	case scope == "shared" && !f.Rules.SharedScope:
		return job.Key{}, fault.New(fault.Invalid, `idempotency_scope "shared" is not enabled on this node`)
	case scope == "shared":
		return job.Key{Scope: job.ScopeShared, Name: name}, nil
	case scope != "" && scope != "user":
		return job.Key{}, fault.New(fault.Invalid, `idempotency_scope must be "user" or "shared", got %.64q`, scope)
	}
	return job.Key{UserID: user, Name: name}, checkUser(user)
}
