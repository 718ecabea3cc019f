// Package alarm says that something fails, at most once a second: a disk that is full is not to be
// filled with lines that say so.
package alarm

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Interval is how long an alarm is silent after a line.
const Interval = time.Second

// Alarm logs failures of one kind. It is safe for concurrent use.
type Alarm struct {
	log     *slog.Logger
	message string
	// due is when the next line may be written, in Unix ms; who moves it writes the line.
	due     atomic.Int64
	unheard atomic.Int64 // failures since the last line
}

// New returns an alarm whose lines have this message.
func New(log *slog.Logger, message string) *Alarm { return &Alarm{log: log, message: message} }

// Raise logs an error on level Error, with what are its circumstances in pairs of a key and a value,
// and with the number of failures that were not logged since the last line as more_before.
func (a *Alarm) Raise(ctx context.Context, err error, circumstances ...any) {
	now, due := time.Now().UnixMilli(), a.due.Load()
	if now < due || !a.due.CompareAndSwap(due, now+Interval.Milliseconds()) {
		a.unheard.Add(1)
		return
	}
	circumstances = append(circumstances, "error", err, "more_before", a.unheard.Swap(0))
	a.log.ErrorContext(ctx, a.message, circumstances...) //nolint:sloglint // who makes an alarm gives it its one message
}
