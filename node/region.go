package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// region is what the node remembers together with the others of its region; nil if it remembers alone.
type region struct {
	*results.Region

	stop  context.CancelFunc // nil: it does not run
	ended chan struct{}
}

func (n *Node) newRegion() (*region, error) {
	c := n.cfg.Remote
	if !n.cfg.shares() {
		return nil, nil //nolint:nilnil // a node that remembers alone has none
	}
	shared, err := results.New(results.Config{
		Target: link.Target{URL: n.cfg.Valkey.URL, CAFile: n.cfg.Valkey.CAFile}, Node: n.tag(),
		Timeout: c.Timeout(), TTL: c.TTL(), Claims: n.cfg.claims(), Prefix: c.IdempotencyPrefix,
		Results: c.ResultEnabled, ResultPrefix: c.ResultPrefix, MaxBytes: c.ResultMaxBytes,
		Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	if err != nil {
		return nil, fmt.Errorf("AQUIFER_VALKEY_URL: %w", err)
	}
	return &region{Region: shared}, nil
}

// start has what the node tells written until close.
func (r *region) start() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = r.Run(ctx) // it tells by itself what it could not write
	}()
}

// close writes what still waits, as long as Valkey takes it, and ends the connections. Nothing may be asked or told
// any more.
func (r *region) close() {
	if r == nil {
		return
	}
	if r.stop != nil {
		r.stop()
		<-r.ended
	}
	r.Close()
}

// remind tells once more of the jobs that are left, whenever that is due, until ctx ends.
func (r *region) remind(ctx context.Context, s store.Store) error {
	if r != nil {
		reminder{lost: r.Lost, tell: func(ctx context.Context) error {
			return r.Remind(ctx, snapshots(ctx, s, left(ctx, s)))
		}}.run(ctx)
	}
	return nil
}

// left iterates over the jobs that have not ended, and those whose result is owed.
func left(ctx context.Context, s store.Store) iter.Seq2[job.ID, error] {
	return func(yield func(job.ID, error) bool) {
		for _, line := range [...]job.Line{job.Calls, job.Deliveries} {
			for e, err := range s.Waiting(ctx, line) {
				if !yield(e.ID, err) {
					return
				}
			}
		}
		for d, err := range s.Pending(ctx) {
			if !yield(d.ID, err) {
				return
			}
		}
	}
}

// keeper has the region keep what jobs have answered that the node is about to forget.
func (r *region) keeper(s store.Store) drain.Results {
	return func(ctx context.Context, ids []job.ID) (map[job.ID]string, error) {
		return r.KeepResults(ctx, snapshots(ctx, s, each(ids)))
	}
}

func each(ids []job.ID) iter.Seq2[job.ID, error] {
	return func(yield func(job.ID, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// snapshots iterates over those jobs that are there and can be read.
func snapshots(ctx context.Context, s store.Store, ids iter.Seq2[job.ID, error]) iter.Seq2[job.Snapshot, error] {
	return func(yield func(job.Snapshot, error) bool) {
		for id, err := range ids {
			var found job.Snapshot
			if err == nil {
				found, err = s.Get(ctx, id)
			}
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				continue
			}
			if !yield(found, err) {
				return
			}
		}
	}
}

// reader finds what the job of a key has answered.
func (r *region) reader(s store.Store, maxBytes int) results.Reader {
	reader := results.Reader{MaxBytes: maxBytes, Local: func(ctx context.Context, key job.Key) (job.Snapshot, bool, error) {
		holder, err := s.Find(ctx, key.Hash())
		if err != nil {
			return job.Snapshot{}, false, foundOr(err)
		}
		found, err := s.Get(ctx, holder.ID)
		return found, err == nil, foundOr(err)
	}}
	if r != nil {
		reader.Region = r.Region
	}
	return reader
}

// foundOr drops the error that says that there is no such thing.
func foundOr(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// claims are the region as the intake sees it.
type claims struct {
	region  *results.Region
	attempt time.Duration // how long an attempt past the queue may take
}

// Find is intake.Region.
func (c claims) Find(ctx context.Context, q *job.Request) *intake.Remote {
	return remote(c.region.Find(ctx, q.Key()), q)
}

// Claim is intake.Region.
func (c claims) Claim(ctx context.Context, j *job.Job) (*intake.Remote, error) {
	var attempt time.Duration
	if j.DirectOnly {
		attempt = c.attempt
	}
	h, err := c.region.Claim(ctx, j.Request.Key(), j.ID, attempt)
	return remote(h, &j.Request), err
}

// Stored is intake.Region.
func (c claims) Stored(j *job.Job) { c.region.Stored(j) }

// Abandon is intake.Region.
func (c claims) Abandon(ctx context.Context, j *job.Job) {
	c.region.Abandon(ctx, j.Request.Key(), j.ID)
}

func remote(h *results.Holder, q *job.Request) *intake.Remote {
	if h == nil {
		return nil
	}
	return &intake.Remote{ID: h.ID, Status: h.Status, ResultKey: h.ResultKey, Mismatch: h.Mismatch(q.Payload())}
}
