package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// times are how long a run takes around its scenario.
type times struct {
	warmUp time.Duration // of load before anything happens
	tail   time.Duration // of load when all is well again, at least
	settle time.Duration // for all to end that was acknowledged, at most
	linger time.Duration // for what comes again
}

func ordinaryTimes() times {
	return times{warmUp: 3 * time.Second, tail: 5 * time.Second, settle: 90 * time.Second, linger: 2 * time.Second}
}

// play runs a scenario in a world that has been started, and says what became of all jobs.
func (w *world) play(ctx context.Context, s scenario, atLeast time.Duration) (account, error) {
	ctx, cancel := context.WithCancel(ctx)
	enough := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { w.balancer.run(ctx) })
	loaded := make(chan struct{})
	running.Go(func() {
		defer close(loaded)
		w.load.run(ctx, enough)
	})
	begin := time.Now()
	err := w.act(ctx, s)
	if err == nil {
		err = pause(ctx, max(w.times.tail, atLeast-time.Since(begin)))
	}
	close(enough)
	if err != nil {
		return w.account(), err
	}
	err = w.settle(ctx, loaded)
	return w.account(), err
}

func (w *world) act(ctx context.Context, s scenario) error {
	if err := pause(ctx, w.times.warmUp); err != nil {
		return err
	}
	return s.run(ctx, w)
}

// settle waits until every job has ended that can, and then a little for what must not come.
func (w *world) settle(ctx context.Context, loaded <-chan struct{}) error {
	limit := time.Now().Add(w.times.settle)
	for time.Now().Before(limit) {
		a := w.account()
		select {
		case <-loaded:
			if a.Lost == 0 {
				return errors.Join(pause(ctx, w.times.linger), w.idle(ctx))
			}
		default:
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not settled %s after the load", w.times.settle)
}

// idle is an error if a node still has something to do.
func (w *world) idle(ctx context.Context) error {
	for _, m := range w.up() {
		n, err := m.unfinished(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%s has %d unfinished jobs when all have ended", m.id, n)
		}
	}
	return nil
}
