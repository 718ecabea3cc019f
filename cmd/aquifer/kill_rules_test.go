//go:build crashpoints

package main

import (
	"fmt"
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// history is everything known about one job after the end.
type history struct {
	*order
	job        client.Job // the zero Job: no node knows it
	calls      []call
	deliveries []call
	kills      int // processes killed meanwhile
}

// maxCrashes is after how many attempts that killed the process a job is given up.
const maxCrashes = 3

// crashed counts the attempts that their process did not survive.
func (h *history) crashed() (n int) {
	for _, a := range h.job.Attempts {
		if a.Error == job.CrashedWorker {
			n++
		}
	}
	return n
}

// lost reports whether an acknowledged job is gone.
func (h *history) lost() bool { return h.id != "" && h.job.JobID == "" }

// givenUp reports whether the job has ended because too many processes died in its attempts.
func (h *history) givenUp() bool {
	return h.job.Status == job.Failed && h.job.Reason == string(job.CrashedWorker) && h.crashed() == maxCrashes
}

// extraCalls counts the calls of attempts whose process died: the only ones that may be repeated.
func (h *history) extraCalls() (n int) {
	for _, c := range h.calls {
		if a := c.attempt; a >= 1 && a <= len(h.job.Attempts) && h.job.Attempts[a-1].Error == job.CrashedWorker {
			n++
		}
	}
	return n
}

// extraDeliveries counts those that the receiver took beyond the first.
func (h *history) extraDeliveries() (n int) {
	for _, d := range h.deliveries {
		if d.status == http.StatusOK {
			n++
		}
	}
	return max(0, n-1)
}

// faults is what must not be, whenever which process died. A job that was acknowledged is there and
// has ended well; each attempt made one call at most, and only one that a process did not survive has
// no answer; the receiver got the same delivery each time, at most once from each process.
func (h *history) faults() []string {
	switch {
	case h.id == "":
		return []string{"never acknowledged"}
	case h.lost():
		return []string{"lost"}
	}
	return append(append(h.badEnd(), h.badCalls()...), h.badDeliveries()...)
}

func (h *history) badEnd() (list []string) {
	if h.givenUp() {
		return nil
	}
	if h.job.Status != job.Completed || h.job.Result == nil {
		return []string{fmt.Sprintf("ended as %s %q", h.job.Status, h.job.Reason)}
	}
	if body, err := h.job.Result.Bytes(); err != nil || string(body) != string(h.Body) {
		list = append(list, fmt.Sprintf("result %q (%v)", body, err))
	}
	if n := h.crashed(); n > h.kills {
		list = append(list, fmt.Sprintf("%d attempts crashed in %d kills", n, h.kills))
	}
	return list
}

func (h *history) badCalls() (list []string) {
	of := map[int]int{} // calls of each attempt
	for _, c := range h.calls {
		of[c.attempt]++
		if c.keyHash != h.wireHash() || c.body != string(h.Body) {
			list = append(list, fmt.Sprintf("called as %+v", c))
		}
		if c.attempt < 1 || c.attempt > len(h.job.Attempts) {
			list = append(list, fmt.Sprintf("call of attempt %d, which is not shown", c.attempt))
		} else if a := h.job.Attempts[c.attempt-1]; a.Error != job.CrashedWorker && a.ResponseStatus != c.status {
			list = append(list, fmt.Sprintf("attempt %d shows %d %s, the target answered %d", c.attempt, a.ResponseStatus, a.Error, c.status))
		}
	}
	for i, a := range h.job.Attempts {
		n := of[i+1]
		if a.Number != i+1 || n > 1 || (n == 0 && a.Error != job.CrashedWorker) {
			list = append(list, fmt.Sprintf("attempt %d is shown as %+v, with %d calls", i+1, a, n))
		}
	}
	return list
}

func (h *history) badDeliveries() (list []string) {
	taken := map[string]int{} // by each process
	for _, d := range h.deliveries {
		if d.status == http.StatusOK {
			taken[d.life]++
		}
		if first := h.deliveries[0]; d.delivery != first.delivery || d.body != first.body {
			list = append(list, fmt.Sprintf("delivered as %+v and as %+v", first, d))
		}
	}
	for life, n := range taken {
		if n > 1 {
			list = append(list, fmt.Sprintf("%d deliveries of %s were taken", n, life))
		}
	}
	if n := h.extraDeliveries(); n > h.kills {
		list = append(list, fmt.Sprintf("%d extra deliveries in %d kills", n, h.kills))
	}
	switch state := h.job.Webhook.State; {
	case state == job.WebhookDelivered && len(taken) > 0:
	case state == job.WebhookSkipped && h.seen:
	default:
		list = append(list, fmt.Sprintf("webhook is %s, taken %d times, stream has the end: %v", state, len(taken), h.seen))
	}
	return list
}

// wireHash is what targets are told about the order's key.
func (o *order) wireHash() string {
	return job.Key{UserID: o.UserID, Name: o.IdempotentKey}.WireHash()
}
