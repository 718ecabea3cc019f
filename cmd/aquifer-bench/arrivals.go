package main

import (
	"context"
	"sync/atomic"
	"time"
)

// arrivals say when the next job is to be sent. They are safe for concurrent use.
type arrivals interface {
	// next waits for the next job and returns its number and when it was meant to be sent. It
	// returns false when there are no more, or ctx has ended.
	next(ctx context.Context) (seq int, start int64, ok bool)
	// refused says that a job was not taken, and no webhook will come.
	refused()
}

// tokens bound how many jobs are in the system. nil tokens bound nothing.
type tokens chan struct{}

func newTokens(n int) tokens {
	t := make(tokens, n)
	for range n {
		t <- struct{}{}
	}
	return t
}

// put never waits: a token too many, of a job that was refused and still came through, is dropped.
func (t tokens) put() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// closedLoop sends the next job when another has left: its token is put back when the webhook comes.
// With nil tokens every connection sends job after job.
type closedLoop struct {
	clk    clock
	tokens tokens
	at     atomic.Int64
	to     int64
}

// newClosedLoop is for jobs from..to-1.
func newClosedLoop(clk clock, t tokens, from, to int) *closedLoop {
	l := &closedLoop{clk: clk, tokens: t, to: int64(to)}
	l.at.Store(int64(from))
	return l
}

func (l *closedLoop) next(ctx context.Context) (int, int64, bool) {
	if l.tokens != nil {
		select {
		case <-l.tokens:
		case <-ctx.Done():
			return 0, 0, false
		}
	}
	seq := l.at.Add(1) - 1
	if seq >= l.to || ctx.Err() != nil {
		l.tokens.put() // for the next one to see the end
		return 0, 0, false
	}
	return int(seq), l.clk.now(), true
}

func (l *closedLoop) refused() { l.tokens.put() }

// schedule is when the jobs of an open loop arrive: at even distances, whatever becomes of them.
type schedule struct {
	start int64   // ns of the shared clock
	rate  float64 // jobs per second
}

func (s schedule) at(i int) int64 { return s.start + int64(float64(i)*1e9/s.rate) }

// due is how many jobs have arrived by now.
func (s schedule) due(now int64) int {
	if now < s.start {
		return 0
	}
	n := int(float64(now-s.start) * s.rate / 1e9)
	for s.at(n) <= now { // the division may round either way
		n++
	}
	return n
}

// openLoop sends jobs by a schedule. Those that find no free connection wait, and their latency counts
// from their arrival.
type openLoop struct {
	schedule schedule
	clk      clock
	from, to int
	arrived  chan int
}

// newOpenLoop is for jobs from..to-1.
func newOpenLoop(clk clock, s schedule, from, to int) *openLoop {
	return &openLoop{schedule: s, clk: clk, from: from, to: to, arrived: make(chan int, to-from)}
}

// run lets the jobs arrive, and returns when the last one has.
func (l *openLoop) run(ctx context.Context) error {
	defer close(l.arrived)
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	defer alarm.close()
	for sent := 0; sent < l.to-l.from; {
		for due := min(l.schedule.due(l.clk.now()), l.to-l.from); sent < due; sent++ {
			l.arrived <- sent
		}
		if err := alarm.wait(ctx, time.Duration(l.schedule.at(sent)-l.clk.now())); err != nil {
			return err
		}
	}
	return nil
}

func (l *openLoop) next(ctx context.Context) (int, int64, bool) {
	select {
	case i, ok := <-l.arrived:
		return l.from + i, l.schedule.at(i), ok
	case <-ctx.Done():
		return 0, 0, false
	}
}

func (l *openLoop) refused() {}
