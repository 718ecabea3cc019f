package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// Owner is the node that answers for a tenant.
type Owner struct {
	ID      string `json:"id"`
	Address string `json:"address"` // base URL
	Local   bool   `json:"local"`   // it is the node that was asked
}

// owner tells who answers for a tenant now.
func (f *face) owner(w http.ResponseWriter, r *http.Request) int {
	userID, err := tenantOf(r.URL.RawQuery)
	if err == nil && f.Cluster == nil {
		err = fault.New(fault.NotFound, "the node is in no cluster")
	}
	if err != nil {
		return f.fail(w, r, err)
	}
	got, err := f.Cluster.Owner(r.Context(), userID)
	if err != nil {
		return f.fail(w, r, err)
	}
	return writeJSON(w, http.StatusOK, got)
}

// tenantOf reads the only parameter.
func tenantOf(raw string) (string, error) {
	params, err := url.ParseQuery(raw)
	if err != nil {
		return "", fault.New(fault.Invalid, "the query string must be well-formed: %v", err)
	}
	if len(params) == 0 {
		return "", checkUser("")
	}
	ids := params["user_id"]
	if len(ids) != 1 || len(params) != 1 {
		return "", fault.New(fault.Invalid, "user_id must be the only parameter and stand once, got %q", raw)
	}
	return ids[0], checkUser(ids[0])
}

// checkUser says what is wrong with a user id by the rule that holds for jobs: none can have it.
func checkUser(id string) error {
	switch {
	case id == "":
		return fault.New(fault.Invalid, "user_id is required")
	case strings.ContainsRune(id, 0):
		return fault.New(fault.Invalid, "user_id must not contain a NUL character, got %q", id)
	}
	return nil
}
