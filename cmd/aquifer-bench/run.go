package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// linger is how long a run waits for what should not come: a second call, a second webhook.
const linger = 300 * time.Millisecond

// run is the jobs of one dispatcher and the sinks that they go to.
type run struct {
	clk    clock
	ledger *ledger
	tokens tokens
	sinks  *sinks
	form   form
	stall  time.Duration
	conns  int
	again  time.Duration // see load

	refusal error // why the first job was refused; nil if none was
}

// newRun starts sinks for as many jobs as given, from dir. Set the dispatcher's address in form.host.
func newRun(dir string, w workload, jobs int) (*run, error) {
	clk, err := newClock()
	if err != nil {
		return nil, err
	}
	r := &run{clk: clk, ledger: newLedger(jobs), tokens: newTokens(w.C), stall: w.Stall, conns: w.C}
	if w.Rate > 0 {
		r.conns = w.Conns
	}
	if r.sinks, err = startSinks(dir, w.Body, r.see); err != nil {
		return nil, err
	}
	r.form = form{targets: []string{r.sinks.target}, receiver: r.sinks.receiver, tenants: w.Tenants, body: jobBody(w.Body)}
	return r, nil
}

func (r *run) see(e event) {
	if r.ledger.observe(e) {
		r.tokens.put()
	}
}

// closed submits jobs from..to-1 in a closed loop and returns when their webhooks have come.
func (r *run) closed(ctx context.Context, from, to int) error {
	return r.submit(ctx, newClosedLoop(r.clk, r.tokens, from, to), r.settled)
}

// open submits jobs from..to-1 at a rate and returns when their webhooks have come.
func (r *run) open(ctx context.Context, rate float64, from, to int) error {
	return r.submit(ctx, newOpenLoop(r.clk, schedule{start: r.clk.now(), rate: rate}, from, to), r.settled)
}

// acceptOnly submits jobs from..to-1, as fast as the connections allow, and returns when they are
// acknowledged.
func (r *run) acceptOnly(ctx context.Context, from, to int) error {
	return r.submit(ctx, newClosedLoop(r.clk, nil, from, to), func() bool { return true })
}

// settled reports whether there is no job under way.
func (r *run) settled() bool { return r.ledger.delivered.Load() >= r.ledger.accepted.Load() }

// submit sends what arrives, and waits until settled. That jobs are refused or lost is no error, but
// what the ledger is for; that nothing happens any more ends the wait.
func (r *run) submit(ctx context.Context, a arrivals, settled func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := load{form: r.form, ledger: r.ledger, clk: r.clk, arrivals: a, conns: r.conns, again: r.again}
	var group errgroup.Group
	if open, ok := a.(*openLoop); ok {
		group.Go(func() error { return open.run(ctx) })
	}
	sent := make(chan struct{})
	var refusal error
	group.Go(func() error {
		defer close(sent)
		refusal = l.run(ctx)
		return nil
	})

	err := r.watch(ctx, sent, settled)
	cancel()
	if ended := group.Wait(); err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	if err == nil && refusal != nil && r.ledger.accepted.Load() == 0 {
		err = fmt.Errorf("no job was accepted: %w", refusal)
	}
	if r.refusal == nil {
		r.refusal = refusal
	}
	return err
}

// watch returns when all is sent and settled, or when nothing has happened for the time of a stall.
func (r *run) watch(ctx context.Context, sent <-chan struct{}, settled func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var progress int64
	moved := r.clk.now()
	for !(sent == nil && settled()) {
		select {
		case <-sent:
			sent = nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if n := r.ledger.progress(); n != progress {
				progress, moved = n, r.clk.now()
			}
			if r.clk.now()-moved > int64(r.stall) {
				return nil
			}
		}
	}
	return nil
}
