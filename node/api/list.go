package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Sizes of a page.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// page is a part of a list. It may be empty and still have a cursor.
type page struct {
	Jobs       []summary `json:"jobs"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

// list lists jobs, the newest first.
func (f *face) list(w http.ResponseWriter, r *http.Request) int {
	q, err := queryOf(r.URL.RawQuery)
	if err != nil {
		return f.fail(w, r, err)
	}
	got, err := f.Jobs.List(r.Context(), q)
	if err != nil {
		return f.fail(w, r, err)
	}
	body := page{Jobs: make([]summary, len(got.Jobs))}
	for i, s := range got.Jobs {
		body.Jobs[i] = summaryOf(s)
	}
	if !got.Next.IsZero() {
		body.NextCursor = cursorOf(got.Next)
	}
	return writeJSON(w, http.StatusOK, body)
}

// paramsOf reads the parameters, each of which may stand once.
func paramsOf(raw string) (url.Values, error) {
	params, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the query string must be well-formed: %v", err)
	}
	known := []string{"user_id", "status", "target", "webhook", "limit", "cursor"}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch {
		case !slices.Contains(known, name):
			return nil, fault.New(fault.Invalid, "a parameter must be one of %v, got %q", known, name)
		case len(params[name]) > 1:
			return nil, fault.New(fault.Invalid, "%s must stand once, got %q", name, params[name])
		case params.Get(name) == "" && name != "limit" && name != "cursor":
			return nil, fault.New(fault.Invalid, "%s must not be empty; without it jobs of every %s are listed", name, name)
		}
	}
	return params, nil
}

// queryOf reads what to list. An empty filter is refused: one that was meant to be there must not show everybody's jobs. An
// empty limit or cursor counts as absent.
func queryOf(raw string) (store.Query, error) {
	params, err := paramsOf(raw)
	if err != nil {
		return store.Query{}, err
	}
	q := store.Query{
		UserID:  params.Get("user_id"),
		Status:  job.Status(params.Get("status")),
		Webhook: job.WebhookState(params.Get("webhook")),
		Limit:   defaultLimit,
	}
	if statuses := []job.Status{job.Queued, job.Completed, job.Failed}; q.Status != "" && !slices.Contains(statuses, q.Status) {
		return q, fault.New(fault.Invalid, "status must be one of %v, got %q", statuses, q.Status)
	}
	if states := job.WebhookStates(); q.Webhook != "" && !slices.Contains(states, q.Webhook) {
		return q, fault.New(fault.Invalid, "webhook must be one of %v, got %q", states, q.Webhook)
	}
	if s := params.Get("target"); s != "" {
		if !job.ValidHost(s) {
			return q, fault.New(fault.Invalid, "target must be host or host:port as in the URL, got %q", s)
		}
		q.Target = job.HostOf(s)
	}
	if s := params.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxLimit {
			return q, fault.New(fault.Invalid, "limit must be an integer between 1 and %d, got %q", maxLimit, s)
		}
		q.Limit = n
	}
	if s := params.Get("cursor"); s != "" {
		if q.Before, err = parseCursor(s); err != nil {
			return q, fault.New(fault.Invalid, "cursor must be the next_cursor of an earlier page, got %q", s)
		}
	}
	return q, nil
}
