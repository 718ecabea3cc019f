package node

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// working tells whom the node works for, as its cluster wants to know it: by routing key. The queues count work by
// tenant, and one job of each tells its user, so that no job is read twice and nothing is kept of single ones.
type working struct {
	calls, deliveries *queue.Queue
	store             store.Jobs
}

// namedAtOnce bounds how many jobs are read at a time, to learn whose they are.
const namedAtOnce = 1000

// on reports whether the node has unfinished work of a routing key. While that is not known for sure, it has.
func (w *working) on(key string) bool {
	if name, shared := strings.CutPrefix(key, cluster.SharedKey("")); shared {
		return w.onShared(context.Background(), name)
	}
	for _, q := range []*queue.Queue{w.calls, w.deliveries} {
		if !w.named(context.Background(), q) || q.Works(key) {
			return true
		}
	}
	return false
}

// onShared is on for a key that all users share, which is that of one job.
func (w *working) onShared(ctx context.Context, name string) bool {
	key := job.Key{Scope: job.ScopeShared, Name: name}
	holder, err := w.store.Find(ctx, key.Hash())
	var found job.Snapshot
	if err == nil {
		found, err = w.store.Get(ctx, holder.ID)
	}
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	return !found.State.Phase().Ended() || found.Webhook.Phase() == job.WebhookPending
}

// users is how many users the node works for.
func (w *working) users() int {
	w.named(context.Background(), w.calls)
	return w.calls.Users()
}

// all iterates over the users that the node works for, as far as known; a user may come twice.
func (w *working) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, q := range []*queue.Queue{w.calls, w.deliveries} {
			w.named(context.Background(), q)
			for _, user := range q.Names() {
				if !yield(user) {
					return
				}
			}
		}
	}
}

// named tells a queue whose its tenants are, and reports whether it knows that of all now. One whose job is not there, but
// which has work still, may be anybody's: that job is about to come, or has gone before others of the tenant.
func (w *working) named(ctx context.Context, q *queue.Queue) (all bool) {
	unnamed := q.Unnamed(namedAtOnce)
	all = len(unnamed) < namedAtOnce
	for who, id := range unnamed {
		found, err := w.store.Get(ctx, id)
		switch {
		case err == nil:
			q.Name(who, found.Job.Request.UserID)
		case errors.Is(err, store.ErrNotFound) && !works(q, who): // it has just gone
		default:
			all = false
		}
	}
	return all
}

// works reports whether a tenant has unfinished work in a queue.
func works(q *queue.Queue, who job.Tenant) bool {
	backlog, _ := q.Tenant(who)
	return backlog > 0
}
