package api

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// failures logs why requests failed, at most once a second: a disk that is full is not to be filled
// with lines that say so. It is safe for concurrent use.
type failures struct {
	log *slog.Logger
	// due is when the next line may be written, in Unix ms; who moves it writes the line.
	due     atomic.Int64
	unheard atomic.Int64 // failures since the last line
}

func (f *failures) note(ctx context.Context, route string, e *fault.Error) {
	now, due := time.Now().UnixMilli(), f.due.Load()
	if now < due || !f.due.CompareAndSwap(due, now+1000) {
		f.unheard.Add(1)
		return
	}
	f.log.ErrorContext(ctx, "request failed", "route", route, "error", e, "more_before", f.unheard.Swap(0))
}
