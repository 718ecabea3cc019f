package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Adopter is what a taker needs of the job store.
type Adopter interface {
	Judge(ctx context.Context, work []store.Handed) ([]store.Adoption, error)
	Adopt(ctx context.Context, work []store.Handed) ([]store.Adoption, error)
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
}

// TakerConfig is what a Taker is built from. All is required, but for what may be nil.
type TakerConfig struct {
	Store Adopter
	Lines Lines
	// FromPeer reports whether a request is proven to come from another node.
	FromPeer func(r *http.Request) bool
	// Room returns an error if the node takes no work now: it drains, may own nothing, or has no room for so many bytes.
	Room func(bytes int64) error
	// MaxBytes bounds the body of a batch.
	MaxBytes int64
	Metrics  *Metrics // nil: nothing is counted
	Logger   *slog.Logger
}

// Taker takes batches of work from peers. It is an http.Handler for Path, and safe for concurrent use.
type Taker struct {
	TakerConfig
	wire wire
	// taking has a token while a batch is taken: between judging and adopting, no other one may add the
	// same jobs.
	taking chan struct{}
}

// NewTaker returns a taker. It fails only if this program is wrong.
func NewTaker(c TakerConfig) (*Taker, error) {
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	w, err := newWire()
	return &Taker{TakerConfig: c, wire: w, taking: make(chan struct{}, 1)}, err
}

// ServeHTTP takes one batch. It answers 403 to whoever is no peer, 400, 405, 413 and 415 to what is no
// batch, 500 when it is not known what became of the batch, and 503 when its giver went before its turn; else 200
// with a verdict for each job. A node that takes no work says Refused of each job that it does not hold yet.
func (t *Taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !t.FromPeer(r):
		refuse(w, http.StatusForbidden, "only nodes of the cluster may hand work over")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "a batch is posted")
		return
	case r.Header.Get("Content-Type") != ContentType:
		refuse(w, http.StatusUnsupportedMediaType, "a batch must be "+ContentType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, t.MaxBytes))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a batch must have at most %d bytes", t.MaxBytes))
		return
	}
	var work []store.Handed
	if err == nil {
		work, err = t.wire.readBatch(body)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	t.reply(w, r, work, int64(len(body)))
}

// errGone says that the giver went away before its batch was looked at.
var errGone = errors.New("the giver of the batch has gone")

func (t *Taker) reply(w http.ResponseWriter, r *http.Request, work []store.Handed, bytes int64) {
	began := time.Now()
	verdicts, err := t.take(r.Context(), work, bytes)
	observed(t.Metrics.take, began)
	t.count(verdicts)
	var body []byte
	if err == nil {
		body, err = t.wire.answer(verdicts)
	}
	switch {
	case errors.Is(err, errGone): // it asks again, and hardly anybody reads this
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		t.Logger.ErrorContext(r.Context(), "batch of a peer not taken", "remote", r.RemoteAddr, "jobs", len(work), "error", err)
		refuse(w, http.StatusInternalServerError, "the batch could not be taken")
		return
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a giver that has gone asks again
}

// count counts what became of a batch. What is held was counted when it came.
func (t *Taker) count(verdicts []Verdict) {
	for _, v := range verdicts {
		switch v {
		case store.Adopted:
			t.Metrics.taken.Inc()
		case store.Held:
		default:
			t.Metrics.refused.Inc()
		}
	}
}

func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": reason})
}

// take adopts and queues the jobs that can be taken.
func (t *Taker) take(ctx context.Context, work []store.Handed, bytes int64) ([]Verdict, error) {
	select {
	case t.taking <- struct{}{}:
		defer func() { <-t.taking }()
	case <-ctx.Done():
		return nil, errGone
	}
	// From here on the batch does not end with its request: a change that nobody waits for may still happen.
	ctx = context.WithoutCancel(ctx)
	judged, err := t.Store.Judge(ctx, work)
	if err != nil {
		return nil, err
	}
	if full := t.Room(bytes); full != nil {
		return refused(judged), nil
	}
	expected := make(map[job.ID]coming)
	for i, a := range judged {
		if a.Verdict != store.Held { // what is judged now may be adopted yet
			expected[work[i].Job.ID] = t.Lines.expect(work[i])
		}
	}
	adopted, err := t.Store.Adopt(ctx, work)
	switch {
	case errors.Is(err, store.ErrFull):
		t.settle(ctx, work, expected, nil)
		return refused(judged), nil
	case err != nil:
		found, unread := t.Store.Judge(ctx, work)
		t.settle(ctx, work, expected, found)
		return nil, errors.Join(err, unread)
	}
	t.settle(ctx, work, expected, adopted)
	verdicts := make([]Verdict, len(adopted))
	for i, a := range adopted {
		verdicts[i] = a.Verdict
	}
	return verdicts, nil
}

// refused are the verdicts of a node that takes nothing new.
func refused(judged []store.Adoption) []Verdict {
	verdicts := make([]Verdict, len(judged))
	for i, a := range judged {
		if verdicts[i] = a.Verdict; a.Verdict != store.Held {
			verdicts[i] = Refused
		}
	}
	return verdicts
}

// settle queues what is stored of the jobs that were expected. After an error that hides what was stored,
// the store says of it that it holds it.
func (t *Taker) settle(ctx context.Context, work []store.Handed, expected map[job.ID]coming, found []store.Adoption) {
	for i, h := range work {
		var a store.Adoption // nothing is stored
		if len(found) > 0 {
			a = found[i]
		}
		switch c, ok := expected[h.Job.ID]; {
		case !ok:
		case a.Verdict == store.Adopted && a.Entry.ID == h.Job.ID:
			c.arrive(a.Entry.Order)
		case a.Verdict == store.Held:
			t.arriveLate(ctx, c)
		default: // or was only judged to be adopted
			c.cancel()
		}
	}
}

// arriveLate queues a job that is stored at a place which is not known.
func (t *Taker) arriveLate(ctx context.Context, c coming) {
	now, err := t.Store.Get(ctx, c.work.Job.ID)
	if err != nil {
		c.cancel()
		return
	}
	c.arrive(store.NewHanded(now, nil).Place().Order)
}
