package store

import (
	"context"
	"time"
)

// Overrides keeps what operators have ordered for targets.
type Overrides interface {
	// Override records an order for a host, host[:port] in its normal spelling, in place of the one
	// before. The zero Override takes it back. It returns once the order is as durable as the configuration says.
	Override(ctx context.Context, host string, o Override) error
	// Overrides returns all orders, by host. Limits whose time is over are left out.
	Overrides(ctx context.Context, now time.Time) (map[string]Override, error)
}

// Override is an operator's order for a target. It comes before the configuration and before what the
// target asks for.
type Override struct {
	Paused        bool    // nothing is sent
	RPS           float64 // dispatches a second; 0: no order
	MaxConcurrent int     // 0: no order
	// LimitsUntil is how long RPS and MaxConcurrent hold, in Unix ms; 0: until they are taken back.
	LimitsUntil int64
	SetAt       int64 // Unix ms
}

// At is what the order says at now.
func (o Override) At(now time.Time) Override {
	if o.LimitsUntil != 0 && o.LimitsUntil <= now.UnixMilli() {
		o.RPS, o.MaxConcurrent, o.LimitsUntil = 0, 0, 0
	}
	return o
}

// Empty reports whether the order says nothing.
func (o Override) Empty() bool { return !o.Paused && o.RPS == 0 && o.MaxConcurrent == 0 }
