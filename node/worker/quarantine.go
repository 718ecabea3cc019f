package worker

import (
	"context"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// MaxCrashes is how many attempts that its process does not survive a job may make.
const MaxCrashes = 3

// quarantine is where jobs take their turns that the next death of the process would end: one at a time.
// A death is held against every job whose attempt was open, because nobody knows which of them it was. So
// one that kills the process again and again has others beside it in its first deaths, but not in its
// last one: none of them fails for it. All other jobs go on meanwhile.
//
// Whoever waits here keeps the slot of its target: a target that gets many such jobs gets them one by one.
// It has a token while a job is in.
type quarantine chan struct{}

func newQuarantine() quarantine { return make(quarantine, 1) }

// suspect reports whether the next death would be the job's last one.
func suspect(s job.State) bool { return s.Crashes >= MaxCrashes-1 }

// enter waits until no other job is in, but no longer than until ctx ends or the deadline passes, in Unix
// ms, when there is nothing to be sent. The job leaves with what it returns.
func (q quarantine) enter(ctx context.Context, deadline int64) (leave func()) {
	late := time.NewTimer(time.Until(time.UnixMilli(deadline)))
	defer late.Stop()
	select {
	case q <- struct{}{}:
		return func() { <-q }
	case <-late.C:
	case <-ctx.Done():
	}
	return func() {}
}
