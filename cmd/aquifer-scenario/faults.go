package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pause waits in a scenario.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// disturb records that from now on something is done to a place that can make jobs run twice. end ends it.
func (w *world) disturb(what string, at place) (end func()) {
	return w.record(disturbance{What: what, Place: at, From: time.Now()})
}

func (w *world) record(d disturbance) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturbed = append(w.disturbed, d)
	i := len(w.disturbed) - 1
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.disturbed[i].Until = time.Now()
	}
}

// account is what has become of the jobs so far.
func (w *world) account() account {
	w.mu.Lock()
	disturbed := slices.Clone(w.disturbed)
	w.mu.Unlock()
	return w.ledger.judge(disturbed)
}

// crash kills a node and starts it again, without its volume if that is lost.
func (w *world) crash(ctx context.Context, m *member, down time.Duration, volumeLost bool) error {
	what := "kill -9"
	if volumeLost {
		what = "volume lost"
	}
	at := time.Now()
	m.kill()
	end := w.record(disturbance{What: what, Place: m.id, From: at, Volume: volumeLost})
	defer end()
	if volumeLost {
		if err := m.destroy(); err != nil {
			return err
		}
	}
	if err := w.awaitNotice(ctx, m.id, at, down); err != nil {
		return err
	}
	if err := pause(ctx, time.Until(at.Add(down))); err != nil {
		return err
	}
	return m.start(ctx)
}

// awaitNotice waits until no node that runs sees one that is gone, for limit at most. A static list
// notices nothing.
func (w *world) awaitNotice(ctx context.Context, gone place, since time.Time, limit time.Duration) error {
	if w.provider == "static" {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, since.Add(limit))
	defer cancel()
	for {
		if w.unseen(ctx, gone) {
			w.noticed = max(w.noticed, time.Since(since))
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s was still seen %s after its death", gone, time.Since(since).Round(time.Millisecond))
		}
	}
}

func (w *world) unseen(ctx context.Context, gone place) bool {
	for _, m := range w.up() {
		if seen, err := m.sees(ctx); err != nil || seen[gone] {
			return false
		}
	}
	return true
}

// others are the places of all other nodes.
func (w *world) others(id place) []place {
	var list []place
	for _, m := range w.members {
		if m.id != id {
			list = append(list, m.id)
		}
	}
	return list
}

// places are those of all nodes.
func (w *world) places() []place { return w.others("") }

// during does something for a time, and heals the network.
func (w *world) during(ctx context.Context, d time.Duration, begin func() error) error {
	defer w.net.heal(context.WithoutCancel(ctx))
	if err := begin(); err != nil {
		return err
	}
	return pause(ctx, d)
}
