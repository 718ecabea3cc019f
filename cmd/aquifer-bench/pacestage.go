package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// play is one scene: what the node is told about its targets, and what they are like.
type play struct {
	rps     float64 // configured for each target
	slots   int     // calls that a target may have open, as configured
	targets int
	jobs    int                         // at most, in the whole scene
	takes   func(seq int) time.Duration // how long the answer to a job's call takes
	env     map[string]string           // more environment of the node
}

// always is a target that is equally fast for all.
func always(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// sceneLimit bounds a scene beyond what it is meant to last.
const sceneLimit = 5 * time.Minute

// submitters is how many connections queue jobs.
const submitters = 16

// stage is where a scene takes place: a node, and targets that it calls as it is told to.
type stage struct {
	clk    clock
	node   *dispatcher
	target *pacedTarget
	form   form
	ledger *ledger
	queued int // jobs so far
}

// perform sets the stage for a scene and runs it.
func (c *paceCmd) perform(ctx context.Context, p play, scene func(context.Context, *stage) error) (err error) {
	dir, err := os.MkdirTemp(c.root, "pace-")
	if err != nil {
		return fmt.Errorf("directory of the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	clk, err := newClock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	// The sinks outlast the node, which would take their end for a failure.
	sinks, stop := context.WithCancel(ctx)
	group, sinks := errgroup.WithContext(sinks)
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	listeners, addrs, err := listen(p.targets + 1)
	if err != nil {
		return err
	}
	s := &stage{clk: clk, target: newPacedTarget(clk, p.takes), ledger: newLedger(p.jobs)}
	s.form = form{targets: addrs[1:], receiver: addrs[0], body: jobBody(64)}
	group.Go(func() error { return serve(sinks, listeners[0], quietly(func(*message) {})) })
	group.Go(func() error { return s.target.serve(sinks, listeners[1:]) })

	n, err := c.newNode(dir, nodeSetup{targets: p.config(), env: maps.Clone(p.env)})
	if err != nil {
		return err
	}
	if s.node, err = n.start(ctx); err != nil {
		return err
	}
	// What is left in its queues would hold a graceful end up.
	defer s.node.Kill()
	s.form.host = s.node.addr
	return scene(ctx, s)
}

func (p play) config() string {
	return fmt.Sprintf("defaults:\n  rps: %g\n  max_concurrent: %d\nwebhooks:\n  rps: 1000000000\n  max_concurrent: 64\n", p.rps, p.slots)
}

// listen opens so many listeners on the loopback interface.
func listen(n int) (list []net.Listener, addrs []string, err error) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			for _, ln := range list {
				ln.Close()
			}
			return nil, nil, fmt.Errorf("listen: %w", err)
		}
		list, addrs = append(list, ln), append(addrs, ln.Addr().String())
	}
	return list, addrs, nil
}

// queue submits the next n jobs, for tenants from a first one on, and returns when all are acknowledged.
func (s *stage) queue(ctx context.Context, n, tenants, first int) error {
	f := s.form
	f.tenants, f.first = tenants, first
	l := load{
		form: f, ledger: s.ledger, clk: s.clk, conns: min(n, submitters),
		arrivals: newClosedLoop(s.clk, nil, s.queued, s.queued+n),
	}
	s.queued += n
	if err := l.run(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// open lets the target answer.
func (s *stage) open() { close(s.target.gate) }

// mark is where a view begins.
type mark struct {
	at     int64         // ns of the shared clock
	cpu    time.Duration // of the node until then
	waited time.Duration // by the node until then, for a core
}

func (s *stage) mark() (mark, error) {
	u, err := usageOf(s.node.ID())
	if err != nil {
		return mark{}, fmt.Errorf("usage of the node, which is to run (%w)\n%s", err, s.node.Tail())
	}
	waited, err := waitedOf(s.node.ID())
	if err != nil {
		return mark{}, fmt.Errorf("how long the node waited for a core: %w", err)
	}
	return mark{s.clk.now(), u.CPU, waited}, nil
}

// view is what was seen for some time.
type view struct {
	begin  int64 // ns of the shared clock
	span   time.Duration
	calls  []arrival
	cores  float64 // processor time of the node by the time that passed
	waited float64 // time that its threads waited for a core by the time that passed
}

// view returns what was seen from a mark on.
func (s *stage) view(from mark) (view, error) {
	now, err := s.mark()
	if err != nil {
		return view{}, err
	}
	span := time.Duration(now.at - from.at)
	return view{
		begin: from.at, span: span,
		cores: (now.cpu - from.cpu).Seconds() / span.Seconds(), waited: (now.waited - from.waited).Seconds() / span.Seconds(),
		calls: between(s.target.since(from.at), from.at, now.at),
	}, nil
}

// watch lets some time pass and returns what was seen.
func (s *stage) watch(ctx context.Context, d time.Duration) (view, error) {
	from, err := s.mark()
	if err != nil {
		return view{}, err
	}
	select {
	case <-time.After(d):
		return s.view(from)
	case <-s.node.Died():
		return view{}, s.node.Ended()
	case <-ctx.Done():
		return view{}, ctx.Err()
	}
}
