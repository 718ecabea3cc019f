package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// demoCommand shows a whole node at work.
type demoCommand struct{}

func (demoCommand) Run(p *process) (err error) {
	dir, err := os.MkdirTemp("", "aquifer-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := untilSignal(context.Background(), signals{
		hangup: func() {},
		first:  func(os.Signal) { _, _ = fmt.Fprintln(p.stderr, "\nStopping.") },
		exit: func(code int) {
			_ = os.RemoveAll(dir) // the process ends whatever comes of it
			p.exit(code)
		},
	})
	err = standardDemo().run(ctx, dir, p.stdout)
	if sig := stop(); sig != nil && errors.Is(err, context.Canceled) {
		return &failure{code: endedBy(sig)}
	}
	return err
}

func (*demoCommand) examples() string {
	return `It starts a node on a temporary store, a target that takes 5 requests a second, and a webhook
receiver, all in this process and on local ports, and removes everything when it ends. On a terminal
it draws; into a file or a pipe it writes a line a second.

Try next: aquifer serve --help
`
}

// demo is a burst of jobs at one target.
type demo struct {
	rps     int // what the target takes
	tenants []tally
	limit   time.Duration // when to give up
}

func standardDemo() demo {
	return demo{
		rps:     5,
		tenants: []tally{{name: "alice", burst: 24}, {name: "bob", burst: 12}, {name: "carol", burst: 4}},
		limit:   time.Minute,
	}
}

// run plays the demo, with its files in dir.
func (d demo) run(ctx context.Context, dir string, stdout io.Writer) error {
	b := newBoard(d.rps, d.tenants)
	target, err := openPlace(ctx, b.released)
	if err != nil {
		return err
	}
	defer target.close()
	receiver, err := openPlace(ctx, b.delivered)
	if err != nil {
		return err
	}
	defer receiver.close()
	cfg, err := demoSettings(dir, target.host, d.rps)
	if err != nil {
		return err
	}
	n, err := startNode(ctx, cfg)
	if err != nil {
		return err
	}
	b.begin(n.server)
	err = d.play(ctx, n, newScreen(stdout), burst{board: b, target: target, receiver: receiver})
	if err = errors.Join(err, n.stop()); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, b.scene().ending())
	return err
}

// play sends the burst and shows what becomes of it, until every result is delivered.
func (d demo) play(ctx context.Context, n *running, s *screen, jobs burst) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit, errSlow)
	defer cancel()
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error { return jobs.send(both, n.server) })
	g.Go(func() error { return s.follow(both, n.done, jobs.board.scene) })
	if err := g.Wait(); err != nil {
		return cmp.Or(context.Cause(ctx), err) // whose end explains all that failed with it
	}
	return nil
}

// errSlow ends a demo that does not come to its end.
var errSlow = errors.New("the demo has not come to its end in time: the node has lost or delayed a job")
