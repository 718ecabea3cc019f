package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// load submits jobs over a number of connections, one request at a time on each.
type load struct {
	form     form
	ledger   *ledger
	clk      clock
	arrivals arrivals
	conns    int
	// again is how long to wait before a request that brought no acknowledgement is sent once more
	// with the same key; 0 to count its job as refused.
	again time.Duration
}

// run submits all that arrives. It returns when every job has been acknowledged or refused, or ctx
// has ended. A refusal is no error here; the first one's reason is returned beside.
func (l *load) run(ctx context.Context) (refusal error) {
	var group errgroup.Group
	for range l.conns {
		group.Go(func() error { return l.work(ctx) })
	}
	return group.Wait()
}

func (l *load) work(ctx context.Context) (refusal error) {
	c := &conn{addr: l.form.host}
	defer c.close()
	var request, json []byte
	for {
		seq, start, ok := l.arrivals.next(ctx)
		if !ok {
			return refusal
		}
		l.ledger.entries[seq].start = start
		request, json = l.form.append(request[:0], json, seq)
		if err := l.submit(ctx, c, seq, request); err != nil {
			l.ledger.refused.Add(1)
			l.arrivals.refused()
			if refusal == nil {
				refusal = err
			}
		}
	}
}

// submit sends a job until it is acknowledged, once if refusals count.
func (l *load) submit(ctx context.Context, c *conn, seq int, request []byte) error {
	for {
		got, err := c.exchange(ctx, request)
		switch {
		case err != nil:
			err = fmt.Errorf("job %d: %w", seq, err)
		case got.status() == http.StatusCreated, got.status() == http.StatusOK:
			l.ledger.accept(seq, l.clk.now(), idTail(field(got.body, "job_id")))
			return nil
		default:
			err = fmt.Errorf("job %d: answered %d %.200s", seq, got.status(), got.body)
		}
		if l.again == 0 || ctx.Err() != nil {
			return err
		}
		l.ledger.retried.Add(1)
		select {
		case <-time.After(l.again):
		case <-ctx.Done():
			return err
		}
	}
}
