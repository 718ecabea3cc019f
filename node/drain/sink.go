package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Send posts a JSON body to a URL and returns the status of the answer, or why there was none. It ends with ctx.
// What proves to the receiver that the node has sent it is for Send to add.
type Send func(ctx context.Context, url string, body []byte) (status int, err error)

// Keys is what a region knows of idempotency keys.
type Keys interface {
	// SetAll sets the values of keys by their hashes on the wire, and returns an error unless it has set all.
	// The names and how long they are kept are for Keys to say. It ends with ctx.
	SetAll(ctx context.Context, values map[string]string) error
}

// Results has a region keep what jobs have answered, and returns under which names it has that, by their ids. A
// job that the node does not have any more is not among them. The error says that it does not have all.
type Results func(ctx context.Context, ids []job.ID) (map[job.ID]string, error)

// sink is who is told.
type sink interface {
	// take returns nil when the sink has the whole batch.
	take(ctx context.Context, why Event, batch []job.LedgerEntry) error
}

// webhook is the sink at a URL.
type webhook struct {
	url  string
	send Send
}

// message is what is posted. The receiver knows a batch that it has seen by its id.
type message struct {
	Event         Event     `json:"event"`
	BatchID       string    `json:"batch_id"`
	SequenceStart job.Order `json:"sequence_start"`
	SequenceEnd   job.Order `json:"sequence_end"`
	FlushedAt     string    `json:"flushed_at"` // RFC 3339, UTC
	Ledger        []entry   `json:"ledger"`
}

type entry struct {
	Sequence   job.Order  `json:"sequence"`
	KeyHash    string     `json:"idempotent_key_hash"`
	JobID      string     `json:"job_id"`
	Status     job.Status `json:"status"`
	RecordedAt int64      `json:"recorded_at"` // Unix ms
}

func batchID(batch []job.LedgerEntry) string {
	return fmt.Sprintf("%d-%d", batch[0].Sequence, batch[len(batch)-1].Sequence)
}

func (w webhook) take(ctx context.Context, why Event, batch []job.LedgerEntry) error {
	m := message{
		Event: why, BatchID: batchID(batch), SequenceStart: batch[0].Sequence, SequenceEnd: batch[len(batch)-1].Sequence,
		FlushedAt: time.Now().UTC().Format(time.RFC3339),
	}
	for _, e := range batch {
		m.Ledger = append(m.Ledger, entry{e.Sequence, e.KeyHash, e.ID.String(), e.Status, e.RecordedAt})
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	status, err := w.send(ctx, w.url, body)
	if err == nil && (status < 200 || status > 299) {
		err = fmt.Errorf("answered %d %s", status, http.StatusText(status))
	}
	return err
}

// region is the sink that the nodes of a region share.
type region struct {
	keys    Keys
	results Results // nil: it does not keep them
}

// outcome is what a key became.
type outcome struct {
	JobID      string     `json:"job_id"`
	Status     job.Status `json:"status"`
	RecordedAt int64      `json:"recorded_at"` // Unix ms
	Source     string     `json:"source"`
	ResultKey  string     `json:"result_key,omitempty"`
	Payload    string     `json:"payload,omitempty"`
	User       string     `json:"user,omitempty"`
}

// take sets the keys of the batch; of two entries of one key the later one counts. The results come first, as
// the keys name them and the node may forget its own after that. A job that ran another one again has no key.
func (r region) take(ctx context.Context, _ Event, batch []job.LedgerEntry) error {
	batch = slices.DeleteFunc(slices.Clone(batch), func(e job.LedgerEntry) bool { return e.Rerun })
	if len(batch) == 0 {
		return nil
	}
	names, err := r.keepResults(ctx, batch)
	if err != nil {
		return err
	}
	values := make(map[string]string, len(batch))
	for _, e := range batch {
		text, err := json.Marshal(outcome{
			JobID: e.ID.String(), Status: e.Status, RecordedAt: e.RecordedAt, Source: "aquifer", ResultKey: names[e.ID],
			Payload: e.Payload, User: e.UserHash,
		})
		if err != nil {
			return err
		}
		values[e.KeyHash] = string(text)
	}
	return r.keys.SetAll(ctx, values)
}

func (r region) keepResults(ctx context.Context, batch []job.LedgerEntry) (map[job.ID]string, error) {
	if r.results == nil {
		return nil, nil
	}
	ids := make([]job.ID, len(batch))
	for i, e := range batch {
		ids[i] = e.ID
	}
	return r.results(ctx, ids)
}
