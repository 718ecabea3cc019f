package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// disturbance is a time in which something was done to a place that can make a job run twice: the protocol
// promises each job once and more rather than never.
type disturbance struct {
	What  string
	Place place
	From  time.Time
	Until time.Time // zero: to the end
	// Volume: the place lost its disk at From.
	Volume bool
}

// reach is how long a disturbance may still show after it: clients and nodes wait this long for an
// answer that does not come, and ask again.
const reach = 15 * time.Second

// slack is how far the clock of one record may be behind that of another.
const slack = time.Second

// explains reports whether the disturbance can be why something that one of the nodes did in a time was
// done again.
func (d disturbance) explains(from, to time.Time, nodes ...place) bool {
	began := !d.From.After(to.Add(slack))
	over := !d.Until.IsZero() && d.Until.Add(reach).Before(from)
	return began && !over && slices.Contains(nodes, d.Place)
}

// cuts reports whether the disturbance can have kept a node from recording what a call has done: it came before the
// node can have heard the answer and written it down.
func (d disturbance) cuts(c call) bool {
	before := c.At.Before(d.From.Add(-slack))
	after := !d.Until.IsZero() && c.At.After(d.Until.Add(slack))
	return d.Place == c.Node && !before && !after
}

// account is what became of the jobs of a run.
type account struct {
	Sent           int            `json:"sent"`
	Accepted       int            `json:"accepted"`
	Completed      int            `json:"completed"`
	Failed         int            `json:"failed"` // ended otherwise
	Lost           int            `json:"lost"`
	LostWithVolume int            `json:"lost_with_volume"`
	Unacknowledged int            `json:"unacknowledged"`
	ExecutedTwice  int            `json:"executed_twice"`
	TwiceBecause   map[string]int `json:"executed_twice_because,omitempty"`
	HooksTwice     int            `json:"webhooks_twice"`
	HooksBecause   map[string]int `json:"webhooks_twice_because,omitempty"`
	FailedCalls    int            `json:"failed_calls"`
	FailedBy       map[string]int `json:"failed_calls_by,omitempty"`
	Strays         int            `json:"strays"`
	AckP50         float64        `json:"ack_ms_p50"`
	AckP99         float64        `json:"ack_ms_p99"`
	Unavailable    float64        `json:"longest_unavailability_ms"`
	Late           float64        `json:"program_late_ms"` // how late this program was itself

	waits  []wait   // of all that were accepted, in the order in which they were sent
	faults []string // what must not be, in words
}

// wait is how long a client had to insist on a job.
type wait struct {
	key   string
	owner place
	at    time.Duration // when it was due, since the first one
	ms    float64
}

// unexplained is the reason of what no disturbance explains.
const unexplained = "unexplained"

// judge counts, and sets what must not be apart from what the disturbances explain.
func (l *ledger) judge(disturbed []disturbance) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := account{
		Sent: len(l.order), Strays: l.strays, Late: l.late.Seconds() * 1000,
		TwiceBecause: map[string]int{}, HooksBecause: map[string]int{}, FailedBy: maps.Clone(l.failed),
	}
	for _, n := range l.failed {
		a.FailedCalls += n
	}
	var waits []float64
	for _, e := range l.order {
		a.end(e, disturbed)
		a.repeats(e, disturbed)
		if !e.Acked.IsZero() {
			w := wait{key: e.Key, owner: e.Owner, at: e.Sent.Sub(l.order[0].Sent), ms: e.Acked.Sub(e.Sent).Seconds() * 1000}
			a.waits, waits = append(a.waits, w), append(waits, w.ms)
		}
	}
	slices.Sort(waits)
	a.AckP50, a.AckP99, a.Unavailable = quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1)
	a.sum()
	return a
}

// end counts how a job ended.
func (a *account) end(e *entry, disturbed []disturbance) {
	if e.Acked.IsZero() {
		a.Unacknowledged++
		return
	}
	a.Accepted++
	switch {
	case e.completed():
		a.Completed++
	case e.ended():
		a.Failed++
	case e.onLostVolume(disturbed):
		a.LostWithVolume++
	default:
		a.Lost++
		a.fault("lost: %s of %s, accepted by %s as %s, called %d times", e.Key, e.User, e.Owner, e.Job, len(e.Calls))
	}
}

// onLostVolume reports whether the node that made the job has lost its disk since.
func (e *entry) onLostVolume(disturbed []disturbance) bool {
	id, err := job.ParseID(e.Job)
	return err == nil && slices.ContainsFunc(disturbed, func(d disturbance) bool {
		return d.Volume && id.NodeTag() == job.TagOf(string(d.Place)) && id.Time().Before(d.From.Add(slack))
	})
}

// repeats counts what was done more than once.
func (a *account) repeats(e *entry, disturbed []disturbance) {
	if runs := e.executions(); len(runs) > 1 {
		a.ExecutedTwice++
		why := unexplained
		for i := 1; i < len(runs); i++ {
			why = whyAgain(disturbed, e, runs[i-1], runs[i])
			if why == unexplained {
				a.fault("executed twice: %s of %s: %s", e.Key, e.User, history(e))
				break
			}
		}
		a.TwiceBecause[why]++
	}
	seen := make(map[string]hook, len(e.Hooks))
	for _, h := range e.Hooks {
		first, again := seen[h.Delivery]
		if !again {
			seen[h.Delivery] = h
			continue
		}
		a.HooksTwice++
		why := because(disturbed, e.Sent, h.At, first.Node, h.Node)
		a.HooksBecause[why]++
		if why == unexplained {
			a.fault("webhook %s came again from %s, first from %s %s earlier", h.Delivery, h.Node, first.Node, h.At.Sub(first.At))
		}
	}
}

// whyAgain tells why the work of an entry was done again. Nodes that hold one job after each other, or one that has been
// restarted, know what was done before, unless the call was cut. Two jobs of one key are made when nodes, or a node and
// its client, did not hear of each other.
func whyAgain(disturbed []disturbance, e *entry, first, again call) string {
	if first.Job != again.Job {
		return because(disturbed, e.Sent, again.At, first.Node, again.Node)
	}
	for _, d := range disturbed {
		if d.cuts(first) {
			return d.What
		}
	}
	return unexplained
}

func because(disturbed []disturbance, from, to time.Time, nodes ...place) string {
	for _, d := range disturbed {
		if d.explains(from, to, nodes...) {
			return d.What
		}
	}
	return unexplained
}

// history tells who did what of a job, in ms since it was sent.
func history(e *entry) string {
	text := fmt.Sprintf("accepted by %s as %s after %d ms", e.Owner, e.Job, e.Acked.Sub(e.Sent).Milliseconds())
	for _, c := range e.Calls {
		text += fmt.Sprintf("; %s called for %s, attempt %s, after %d ms", c.Node, c.Job, c.Attempt, c.At.Sub(e.Sent).Milliseconds())
	}
	return text
}

// sum adds the faults that are known only by their number.
func (a *account) sum() {
	for _, c := range []struct {
		n    int
		what string
	}{
		{a.Failed, "jobs ended without being done"},
		{a.Unacknowledged, "jobs were never acknowledged"},
		{a.Strays, "calls or webhooks belong to no job that was sent"},
	} {
		if c.n > 0 {
			a.fault("%d %s", c.n, c.what)
		}
	}
	if a.Accepted == 0 {
		a.fault("no job was accepted")
	}
}

func (a *account) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// quantile is the smallest value of a sorted list that a part of it, 0..1, is not above; 0 for none.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
