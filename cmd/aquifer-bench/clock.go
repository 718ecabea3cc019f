package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_MONOTONIC in ns, so that times taken by different processes of one machine
// compare. It is a value; after newClock it makes no system call.
type clock struct {
	base int64
	mark time.Time
}

func newClock() (clock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return clock{}, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return clock{base: ts.Nano(), mark: time.Now()}, nil
}

func (c clock) now() int64 { return c.base + int64(time.Since(c.mark)) }
