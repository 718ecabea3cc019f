package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine at a moment. The runtime's timers are rounded up to a millisecond when a
// thread sleeps, which is more than a job may take; a timerfd is exact and needs no thread.
type alarm struct{ f *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &alarm{f: os.NewFile(uintptr(fd), "timer")}, nil
}

// wait returns after d, or with ctx's error when ctx ends.
func (a *alarm) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { a.f.Close() })
	defer stop()
	raw, err := a.f.SyscallConn()
	if err != nil {
		return wakeError(ctx, err)
	}
	var set error
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		return wakeError(ctx, err)
	}
	if set != nil {
		return fmt.Errorf("set the timer: %w", set)
	}
	var expirations [8]byte
	if _, err := a.f.Read(expirations[:]); err != nil {
		return wakeError(ctx, err)
	}
	return ctx.Err()
}

func wakeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("wait for the timer: %w", err)
}

func (a *alarm) close() { a.f.Close() }
