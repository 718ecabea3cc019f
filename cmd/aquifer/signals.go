package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long after the first signal others still count as that one: timeout(1) and
// supervisors signal both a process and its group, which a user meant once.
const sameSignal = 250 * time.Millisecond

// signals is what a long-running command does about the signals that it gets.
type signals struct {
	hangup func()          // SIGHUP
	first  func(os.Signal) // the first SIGINT or SIGTERM
	exit   func(code int)  // the second one, at once; not what comes within sameSignal of the first
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. The caller must call
// stop, which gives the signals back and returns the one that ended the context, nil if none did.
func untilSignal(parent context.Context, s signals) (ctx context.Context, stop func() os.Signal) {
	ctx, cancel := context.WithCancel(parent)
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan os.Signal)
	go func() { ended <- s.watch(got, cancel) }()
	return ctx, func() os.Signal {
		signal.Stop(got)
		close(got)
		return <-ended
	}
}

// watch acts on each signal until there are no more and returns the one that called cancel.
func (s signals) watch(got <-chan os.Signal, cancel context.CancelFunc) (ending os.Signal) {
	var since time.Time // of the first
	for sig := range got {
		switch {
		case sig == syscall.SIGHUP:
			s.hangup()
		case ending == nil:
			ending, since = sig, time.Now()
			s.first(sig)
			cancel()
		case time.Since(since) >= sameSignal:
			s.exit(int(endedBy(sig)))
		}
	}
	cancel()
	return ending
}

// endedBy is the exit code of a process that a signal ended.
func endedBy(sig os.Signal) exitCode {
	if n, ok := sig.(syscall.Signal); ok {
		return exitCode(128 + int(n))
	}
	return exitFailed
}
