//go:build !linux

package main

import (
	"context"
	"time"
)

// alarm wakes a goroutine at a moment, as exactly as the runtime's timers do.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

// wait returns after d, or with ctx's error when ctx ends.
func (*alarm) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

func (*alarm) close() {}
