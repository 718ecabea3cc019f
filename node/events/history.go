package events

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// History returns what has happened to a job as far as its stored state tells: everything, except the
// middle of a long row of attempts. Its reasons of retries are shorter than those a live listener
// got: the class of the error instead of its text.
func History(s job.Snapshot) []Event {
	list, _ := history(s)
	return list
}

// history also returns where in the list the part without a hole begins that reaches to its end.
func history(s job.Snapshot) (list []Event, whole int) {
	id := s.Job.ID
	list = append(make([]Event, 0, 2*len(s.State.Attempts)+3), Queued(id))
	last := 0
	for _, a := range s.State.Attempts {
		if a.Number != last+1 {
			whole = len(list)
		}
		last = a.Number
		list = append(list, dispatching(id, a.Number))
		if retried(s.State, a) {
			list = append(list, retrying(s, a, reasonOf(a)))
		}
	}
	if s.State.Tried > last { // it is open, or was never closed
		if s.State.Tried > last+1 {
			whole = len(list)
		}
		list = append(list, Dispatching(s))
	}
	if s.State.Phase().Ended() {
		list = append(list, Terminal(s, nil))
	}
	return list, whole
}

// retried reports whether the job went on to wait for another attempt after a.
func retried(s job.State, a job.Attempt) bool {
	return a.Number < s.Tried || !s.Phase().Ended() || a.RetryWaitMS > 0
}

func reasonOf(a job.Attempt) string {
	if a.Error == "" {
		return fmt.Sprintf("upstream returned %d", a.Status)
	}
	return string(a.Error)
}

// Since returns what a listener must be told that has seen the events up to lastID, and what to
// tell it first if some of them are missing; then every event from the gap's Oldest on follows.
//
// An empty lastID belongs to a new listener. It is told that the job was queued, and the latest thing
// that happened to it: its open attempt, the retry that it waits for, or its end.
func Since(s job.Snapshot, lastID string) (missed []Event, gap *Event) {
	list, whole := history(s)
	if lastID == "" {
		if len(list) > 2 {
			list = append(list[:1], list[len(list)-1])
		}
		return list, nil
	}
	seq, reason := parseID(lastID)
	if reason == "" {
		missed, reason = after(list, whole, seq)
	}
	if reason != "" {
		g := Gap(list[whole].Seq, reason)
		return list[whole:], &g
	}
	return missed, nil
}

// after returns the events behind the id seq, or why it cannot.
func after(list []Event, whole, seq int) ([]Event, GapReason) {
	switch oldest := list[whole].Seq; {
	case seq > list[len(list)-1].Seq:
		return nil, GapFuture
	case seq < oldest-1:
		return nil, GapTrimmed
	case seq == oldest-1: // it is not kept itself, but nothing behind it is missing
		return list[whole:], ""
	}
	at, found := slices.BinarySearchFunc(list, seq, func(e Event, seq int) int { return e.Seq - seq })
	if !found {
		return nil, GapUnknown
	}
	return list[at+1:], ""
}

// parseID reads an id exactly as Event.ID writes it, or says why it cannot be one.
func parseID(s string) (seq int, reason GapReason) {
	seq, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange) && s[0] != '-' && s[0] != '+':
		return 0, GapFuture
	case err != nil || seq < 0 || strconv.Itoa(seq) != s:
		return 0, GapMalformed
	}
	return seq, ""
}
