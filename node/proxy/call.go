package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// call is one call on its way: the turn makes the attempt, the caller waits for it.
type call struct {
	proxy *Proxy
	// live is set when the job is stored, before its turn begins.
	live *events.Subscription
	// done is closed when the turn has an answer for the caller, unless he has left.
	done chan struct{}

	mu     sync.Mutex // guards what follows: either the caller gets the answer and all that is held for it, or he has left
	left   bool
	job    *job.Job // nil until there is an answer
	answer worker.Answer
	relay  *Relay // nil: the answer is not to be relayed
}

// Run is queue.Runner for the turn of the call.
func (c *call) Run(_ context.Context, t *queue.Turn) (v queue.Verdict) {
	lease := c.proxy.Room.Lease(c.proxy.Attempts)
	var answer worker.Answer
	// Whoever waits for room must not wait for a caller to read.
	defer lease.End()
	defer func() { c.finish(t, answer) }()
	c.live.Wait() // the caller gets the answer at his own pace
	answer, v = c.proxy.Worker.Direct(lease, t)
	c.proxy.metrics.attempt(answer)
	if t.Held.Job.DirectOnly && !answer.Completed {
		c.proxy.Intake.Void(lease, t.Held.Job)
	}
	return v
}

// finish hands the answer over to the caller, if he is there.
func (c *call) finish(t *queue.Turn, a worker.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	if a.Completed && !a.Truncated {
		c.relay = c.proxy.relayOf(a, c.live)
	}
	a.Body = nil // without a relay it has no room from now on
	c.job, c.answer = t.Held.Job, a
	close(c.done)
}

// relayOf is the relay of an answer; nil if there is no room for it.
func (p *Proxy) relayOf(a worker.Answer, live *events.Subscription) *Relay {
	held, ok := p.relays.take(int64(len(a.Body)))
	if !ok {
		return nil
	}
	return &Relay{Status: a.Status, Header: relayed(a.Header), Body: a.Body, live: live, room: p.relays, held: held}
}

// leave gives up waiting, and reports whether there was no answer yet.
func (c *call) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.job != nil {
		return false
	}
	c.left = true
	if c.live != nil {
		c.live.Close()
	}
	return true
}

// abandon ends the call for a caller who is told something else.
func (c *call) abandon() {
	if !c.leave() {
		c.live.Close()
		if c.relay != nil {
			c.relay.Close()
		}
	}
}

// result is what the caller is to be told.
func (c *call) result(got intake.Receipt) (Result, error) {
	a, out := c.answer, Result{Receipt: got, Relay: c.relay}
	if out.Relay != nil {
		return out, nil
	}
	if !a.Completed {
		out.Reason, out.UpstreamStatus = c.why()
	}
	if c.job.DirectOnly && !a.Completed {
		c.live.Close()
		return Result{}, &NotDirectError{Reason: out.Reason, UpstreamStatus: out.UpstreamStatus}
	}
	// A stream has to be confirmed in the usual time.
	out.Live = c.proxy.Hub.Subscribe(got.ID)
	c.live.Close()
	if out.Reason != "" {
		c.proxy.metrics.fallback(out.Reason)
		out.Load = c.proxy.Load(c.job.Lane())
	}
	return out, nil
}

// why is the reason of a call that was not completed.
func (c *call) why() (Reason, int) {
	a := c.answer
	switch {
	case !a.Tried && c.job.Expired(time.Now()):
		return DeadlineExceeded, 0
	case !a.Recorded: // the node could not begin it, or not record its end
		return Degraded, 0
	case a.Class != "":
		return Unreachable, 0
	default:
		return Overloaded, a.Status
	}
}

// relayed is the header of an answer without what belongs to the connection that brought it (RFC 9110, 7.6.1).
func relayed(h http.Header) http.Header {
	named := map[string]bool{}
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	kept := make(http.Header, len(h))
	for name, values := range h {
		if !named[name] && !egress.OfConnection(name) {
			kept[name] = values
		}
	}
	return kept
}
