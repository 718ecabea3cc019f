package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/proxy"
)

// relayLife is how long a client may take for a whole answer: 16 MiB come at 56 kB/s. One that takes longer has its result
// by webhook.
const relayLife = 5 * time.Minute

// proxy answers with what the target has answered, or tells what happens to the call.
func (f *face) proxy(w http.ResponseWriter, r *http.Request) int {
	s, status := f.receive(w, r)
	if status != 0 {
		return status
	}
	got, err := f.Proxy.Try(r.Context(), s)
	var notDirect *proxy.NotDirectError
	switch {
	case errors.As(err, &notDirect):
		return f.notDirect(w, notDirect)
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		return statusGone
	case err != nil:
		setLoad(w.Header(), got.Load)
		return f.fail(w, r, err)
	case got.Duplicate:
		return f.known(w, r, got.Receipt)
	}
	setDurability(w.Header(), got.Durability)
	if got.Relay != nil {
		defer got.Relay.Close()
		return f.relay(w, r, got.ID, got.Relay)
	}
	defer got.Live.Close()
	return f.fallBack(w, r, got)
}

// notUsed is the body of an answer to a call that was for an attempt past the queue alone.
type notUsed struct {
	Error          string       `json:"error"`
	Reason         proxy.Reason `json:"reason"`
	UpstreamStatus int          `json:"upstream_status"` // 0: no answer, or none that is the reason
}

func (f *face) notDirect(w http.ResponseWriter, e *proxy.NotDirectError) int {
	w.Header().Set("Retry-After", f.retryAfter(&fault.Error{}))
	return writeJSON(w, http.StatusServiceUnavailable, notUsed{e.Error(), e.Reason, e.UpstreamStatus})
}

// known answers a call whose key is known with what the job has answered, or tells what happens to it.
func (f *face) known(w http.ResponseWriter, r *http.Request, got intake.Receipt) int {
	f.Logger.LogAttrs(r.Context(), slog.LevelDebug, "key is known", slog.String("job_id", got.ID.String()))
	live := f.Hub.Subscribe(got.ID) // before the job is read, so that nothing falls between the two
	defer live.Close()
	s, err := f.Jobs.Get(r.Context(), got.ID)
	body := receiptOf(got)
	switch {
	case err != nil && asFault(err).Kind == fault.NotFound: // it is elsewhere in the region
		return writeJSON(w, http.StatusOK, body)
	case err != nil:
		return f.fail(w, r, err)
	case s.State.Phase().Ended():
		body.Status, body.Result = s.State.Phase(), resultOf(s.State)
		return writeJSON(w, http.StatusOK, body)
	}
	t := teller{face: f, live: live, told: events.Follow(live, s, ""), place: placeOf(s)}
	return t.tell(w, r)
}

// fallBack tells a caller what happens to a call that was not relayed.
func (f *face) fallBack(w http.ResponseWriter, r *http.Request, got proxy.Result) int {
	s, err := f.Jobs.Get(r.Context(), got.ID)
	if err != nil {
		return f.fail(w, r, err)
	}
	t := teller{face: f, live: got.Live, told: events.Follow(got.Live, s, ""), place: placeOf(s)}
	t.replayed = s.State.Result != nil && s.State.Result.Truncated // else what is stored is the whole result
	if got.Reason != "" {
		f.Logger.LogAttrs(r.Context(), slog.LevelDebug, "call joins the queue", slog.String("job_id", got.ID.String()),
			slog.String("reason", string(got.Reason)), slog.Int("status", got.UpstreamStatus))
		writeLoad(w.Header(), got.Load)
		first := events.ProxyFallback(got.ID, string(got.Reason), got.UpstreamStatus)
		t.first = &first
	}
	return t.tell(w, r)
}

// relay hands a target's answer on. What this node itself says in the header comes before what the target says.
func (f *face) relay(w http.ResponseWriter, r *http.Request, id job.ID, a *proxy.Relay) int {
	h := w.Header()
	for name, values := range a.Header {
		if _, ours := h[name]; !ours && name != aqueduct+"Node-State" && name != aquifer+"Node-State" {
			h[name] = values
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // else the server would guess one
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	out := newWriter(w, r)
	out.end = time.Now().Add(relayLife)
	// A client that does not get the whole answer sees that by the length.
	delivered := out.send(a.Body) == nil && out.taken(r.Context())
	if delivered {
		a.Delivered(r.Context())
	}
	f.Logger.LogAttrs(r.Context(), slog.LevelDebug, "answer relayed", slog.String("job_id", id.String()),
		slog.Int("status", a.Status), slog.Bool("delivered", delivered))
	return a.Status
}
