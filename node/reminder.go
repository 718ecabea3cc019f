package node

import (
	"context"
	"time"
)

const (
	// remindPause is how long the region is left alone between two looks at whether it has forgotten.
	remindPause = time.Second
	// remindPauseMax bounds the wait after a pass that failed, which doubles from remindPause on.
	remindPauseMax = time.Minute
)

// reminder tells the region once more of the jobs that are left: at the start, as the last process may have died before
// it was heard, and whenever there may be something that the region does not know.
type reminder struct {
	// lost reports whether there may be something. An error says nothing.
	lost func(context.Context) (bool, error)
	// tell tells of all that is left, in one pass.
	tell func(context.Context) error
}

// run works until ctx ends. A pass that fails is begun anew, so that no reading of the store stays open while Valkey is
// away, and after a longer wait each time: it has read and told much that has to be read and told again.
func (r reminder) run(ctx context.Context) {
	var next time.Time
	wait := remindPause
	for due := true; ctx.Err() == nil; pause(ctx, remindPause) {
		lost, err := r.lost(ctx)
		if err != nil {
			continue // who does not answer now is asked again
		}
		due = due || lost
		if !due || time.Now().Before(next) {
			continue
		}
		if due = r.tell(ctx) != nil; !due {
			wait = remindPause
			continue
		}
		next = time.Now().Add(wait)
		wait = min(2*wait, remindPauseMax)
	}
}
