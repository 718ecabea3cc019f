package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// backlog is one such measurement.
type backlog struct {
	*backlogCmd
	run    *run
	root   string
	next   int // the next job's number
	report backlogReport
	say    func(format string, args ...any)
}

func (b *backlog) measure(ctx context.Context) error {
	n, err := b.node("full")
	if err != nil {
		return err
	}
	d, err := n.start(ctx)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, n, d); err != nil {
		d.Kill()
		return err
	}
	if err := b.end(d); err != nil {
		return err
	}
	if d, err = b.restart(ctx, n); err != nil {
		return err
	}
	defer d.Kill()
	if err := b.check(ctx, d); err != nil {
		return err
	}
	if err := b.compare(ctx, d); err != nil {
		return err
	}
	u, err := usageOf(d.ID())
	b.report.EndRSS = u.PeakRSS
	return err
}

func (b *backlog) node(name string) (*node, error) {
	dir := filepath.Join(b.root, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of a node: %w", err)
	}
	return b.newNode(dir, nodeSetup{durability: b.Durability, targets: rates(b.run.sinks.target)})
}

// submit has d accept n more jobs.
func (b *backlog) submit(ctx context.Context, d *dispatcher, n int) (stages, error) {
	from := b.next
	b.next += n
	b.run.form.host = d.addr
	if err := b.run.acceptOnly(ctx, from, b.next); err != nil {
		return stages{}, err
	}
	return b.run.ledger.intake(from, b.next), nil
}

func (b *backlog) fill(ctx context.Context, n *node, d *dispatcher) error {
	b.say("queueing %d jobs", b.Queued)
	got, err := b.submit(ctx, d, b.Queued)
	if err != nil {
		return fmt.Errorf("queue jobs: %w", err)
	}
	b.report.FillRate = got.acceptRate()
	b.report.Refused = b.Queued - got.accepted
	u, err := usageOf(d.ID())
	if err != nil {
		return err
	}
	b.report.FilledRSS = u.RSS
	b.report.DatabaseSize, err = sizeOf(n.data())
	return err
}

func (b *backlog) end(d *dispatcher) error {
	if b.Graceful {
		return d.stop()
	}
	d.Kill()
	return nil
}

// restart starts the node on its backlog and waits for its first call.
func (b *backlog) restart(ctx context.Context, n *node) (_ *dispatcher, err error) {
	b.say("restarting")
	started := b.run.clk.now()
	since := func(at int64) float64 { return time.Duration(at - started).Seconds() }
	d, err := n.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Kill()
		}
	}()
	b.report.Ready = since(b.run.clk.now())
	u, err := usageOf(d.ID())
	if err != nil {
		return nil, err
	}
	b.report.ReadyRSS = u.RSS
	// A call that never comes is a finding, to be seen in the report.
	if b.awaitCall(ctx, started) {
		b.report.FirstCall = since(b.run.ledger.lastCall.Load())
	}
	if u, err = usageOf(d.ID()); err != nil {
		return nil, err
	}
	b.report.PeakRSS = u.PeakRSS
	return d, ctx.Err()
}

func (b *backlog) awaitCall(ctx context.Context, after int64) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.run.ledger.lastCall.Load() <= after {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			if b.run.clk.now()-after > int64(b.Stall) {
				return false
			}
		}
	}
	return true
}

// check submits a sample of the queued jobs again: a node that has them answers 200.
func (b *backlog) check(ctx context.Context, d *dispatcher) error {
	const sample = 1000
	c := &conn{addr: d.addr}
	defer c.close()
	var request, json []byte
	for i := range min(sample, b.Queued) {
		seq := i * b.Queued / min(sample, b.Queued)
		if b.run.ledger.entries[seq].accepted == 0 {
			continue
		}
		request, json = b.run.form.append(request[:0], json, seq)
		got, err := c.exchange(ctx, request)
		if err != nil {
			return fmt.Errorf("submit job %d again: %w", seq, err)
		}
		b.report.Checked++
		if got.status() != http.StatusOK {
			b.report.Lost++
		}
	}
	return nil
}
