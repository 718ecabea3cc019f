package handoff

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	// Path is where a node takes batches from its peers.
	Path = "/internal/handoff"
	// ContentType is the type of batches and answers.
	ContentType = "application/cbor"
	// MaxJobs is how many jobs a batch has at most.
	MaxJobs = 1024

	wireVersion = 1
)

// Verdict is what a taker says of a job: one of the store's, or Refused.
type Verdict = store.Verdict

// Refused: the taker takes no such work now, and nothing was changed.
const Refused Verdict = 5

// batch is the body of a request.
type batch struct {
	Version int            `cbor:"1,keyasint"`
	Work    []store.Handed `cbor:"2,keyasint"`
}

// answer is the body of an answer.
type answer struct {
	Version  int    `cbor:"1,keyasint"`
	Verdicts []byte `cbor:"2,keyasint"` // in the order of the batch
}

// wire encodes and decodes. It is safe for concurrent use.
type wire struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newWire() (wire, error) {
	enc, err := cbor.EncOptions{}.EncMode()
	if err != nil {
		return wire{}, err
	}
	// What targets and callers have sent need not be UTF-8.
	dec, err := cbor.DecOptions{
		UTF8: cbor.UTF8DecodeInvalid, DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxArrayElements: 1 << 16, MaxMapPairs: 64, MaxNestedLevels: 8,
	}.DecMode()
	return wire{enc: enc, dec: dec}, err
}

func (w wire) batch(work []store.Handed) ([]byte, error) {
	return w.enc.Marshal(batch{Version: wireVersion, Work: work})
}

func (w wire) answer(verdicts []Verdict) ([]byte, error) {
	a := answer{Version: wireVersion, Verdicts: make([]byte, len(verdicts))}
	for i, v := range verdicts {
		a.Verdicts[i] = byte(v)
	}
	return w.enc.Marshal(a)
}

// readBatch reads a batch. The error names the job and the field that are wrong.
func (w wire) readBatch(body []byte) ([]store.Handed, error) {
	var b batch
	if err := w.dec.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("the batch cannot be read: %w", err)
	}
	if b.Version != wireVersion {
		return nil, fmt.Errorf("the batch has version %d, this node knows %d", b.Version, wireVersion)
	}
	if len(b.Work) == 0 || len(b.Work) > MaxJobs {
		return nil, fmt.Errorf("a batch must have 1 to %d jobs, got %d", MaxJobs, len(b.Work))
	}
	seen := make(map[job.ID]bool, len(b.Work))
	for i, h := range b.Work {
		if err := check(h); err != nil {
			return nil, fmt.Errorf("job %d of the batch: %w", i, err)
		}
		if seen[h.Job.ID] {
			return nil, fmt.Errorf("job %d of the batch: the id %s is there twice", i, h.Job.ID)
		}
		seen[h.Job.ID] = true
	}
	return b.Work, nil
}

// readAnswer reads the answer about so many jobs.
func (w wire) readAnswer(body []byte, jobs int) ([]Verdict, error) {
	var a answer
	if err := w.dec.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if a.Version != wireVersion || len(a.Verdicts) != jobs {
		return nil, fmt.Errorf("the answer has version %d and %d verdicts, expected version %d and %d",
			a.Version, len(a.Verdicts), wireVersion, jobs)
	}
	verdicts := make([]Verdict, jobs)
	for i, v := range a.Verdicts {
		if verdicts[i] = Verdict(v); verdicts[i] < store.Adopted || verdicts[i] > Refused {
			return nil, fmt.Errorf("the answer has the verdict %d, which is none", v)
		}
	}
	return verdicts, nil
}

// check says what makes a job unfit to be adopted: it could neither be queued nor be sent. What its first
// node has checked of the request is not checked again.
func check(h store.Handed) error {
	if h.Job == nil {
		return errors.New("the job is missing")
	}
	r, s := &h.Job.Request, h.State
	switch {
	case h.Job.ID.IsZero():
		return errors.New("id must not be zero")
	case h.Job.Moves < 1:
		return fmt.Errorf("moves must be at least 1, got %d", h.Job.Moves)
	case r.UserID == "" || r.Method == "" || (r.URL == "") == (r.PoolID == ""):
		return errors.New("the request must have a user, a method and one of url and pool")
	case r.URL != "" && !reachable(r.URL):
		return fmt.Errorf("url must be absolute http or https, got %q", r.URL)
	case !reachable(r.WebhookURL):
		return fmt.Errorf("webhook_url must be absolute http or https, got %q", r.WebhookURL)
	case r.Scope > job.ScopeShared:
		return fmt.Errorf("scope must be 0 or 1, got %d", r.Scope)
	case h.Job.Deadline <= 0 || h.Job.CreatedAt < 0 || s.DueAt < 0 || h.Webhook.DueAt < 0:
		return errors.New("times must not be negative, and there must be a deadline")
	case s.Tried < 0 || s.Crashes < 0 || h.Webhook.Attempts < 0 || len(s.Attempts) > job.MaxShownAttempts:
		return errors.New("attempts are out of range")
	}
	return checkPhase(h)
}

// reachable reports whether a URL leads to a target that has a lane.
func reachable(url string) bool {
	target := job.TargetOf(url)
	return (strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")) && !strings.Contains(target, "\x00")
}

// checkPhase says whether a job stands where unfinished work may stand.
func checkPhase(h store.Handed) error {
	s, w := h.State, h.Webhook
	switch phase := s.Phase(); {
	case phase == job.Queued && (s.EndedAt != 0 || s.Result != nil || w != job.Webhook{}):
		return errors.New("a queued job must have no end")
	case phase == job.Queued:
		return nil
	case !phase.Ended():
		return fmt.Errorf("status must be queued, completed or failed, got %q", s.Status)
	case w.Phase() != job.WebhookPending:
		return fmt.Errorf("the delivery of an ended job must be pending, got %q", w.State)
	case s.DueAt != 0 || s.ExpiresAt <= 0:
		return errors.New("an ended job must be due no more, and must expire")
	}
	return nil
}
