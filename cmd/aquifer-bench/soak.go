package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// soakCmd runs a node for a long time, with restarts, and judges whether it stays flat.
type soakCmd struct {
	nodeOptions
	Durability durability    `help:"What the node's acknowledgement promises: default or sync." enum:"default,sync" default:"default"`
	Duration   time.Duration `help:"How long." default:"10m"`
	Fraction   float64       `help:"Part of the maximum, which is measured first." default:"0.5"`
	Rate       float64       `help:"Jobs per second, instead of a part of the maximum."`
	Restarts   int           `help:"Restarts, kill -9 and SIGTERM in turn, all in the first half." default:"8"`
	Retention  time.Duration `help:"How long the node keeps finished jobs." default:"30s"`
	Sample     time.Duration `help:"Time between two samples; a sixtieth of the duration, at most 2s, if 0."`
	CSV        string        `name:"csv" help:"Write the samples to this file." type:"path"`
	C          int           `short:"c" help:"Jobs in the system at a time when the maximum is measured." default:"64"`
	Conns      int           `help:"Connections that submit." default:"64"`
	Body       int           `help:"Bytes of a job's body." default:"256"`
	Tenants    int           `help:"Tenants that take turns." default:"64"`
	JSON       bool          `name:"json" help:"Print JSON instead of tables."`
}

// Help is shown by the command line.
func (soakCmd) Help() string {
	return `Submits jobs at a steady rate while the node is restarted again and again, and keeps asking with the
same key until a job is acknowledged, as a careful client does. All restarts fall into the first half:
the last life of the node is a long one, so that no restart hides what grows.

RSS, goroutines, open files and the size of the database must be flat in that last life, once the node
has had time to drop what it no longer keeps. The exit code is 1 if they are not, or if a job was lost
or done twice. What was done twice because of a kill -9 is counted apart and is no fault.`
}

// sweep is what a node may take to remove what has expired, beyond the retention itself.
const sweep = time.Minute

// Validate is called by the command line.
func (c *soakCmd) Validate() error {
	if c.Duration <= 0 || c.Sample < 0 || c.Retention < time.Second || c.Restarts < 0 {
		return errors.New("--duration must be positive, --retention at least 1s, --sample and --restarts not negative")
	}
	if c.Rate < 0 || (c.Rate == 0 && (c.Fraction <= 0 || c.Fraction > 1)) {
		return errors.New("--rate must not be negative, --fraction must be above 0 and at most 1")
	}
	return c.workload(1).Validate()
}

func (c *soakCmd) workload(jobs int) workload {
	return workload{C: c.C, Conns: c.Conns, Jobs: jobs, Body: c.Body, Tenants: c.Tenants, Stall: time.Minute}
}

// moments are when the restarts happen.
func (c *soakCmd) moments() []time.Duration {
	var list []time.Duration
	for i := range c.Restarts {
		list = append(list, c.Duration/2*time.Duration(i+1)/time.Duration(c.Restarts))
	}
	return list
}

// judgedFrom is when the node should be steady: some time after the last restart, but at least
// half of the last life is judged.
func (c *soakCmd) judgedFrom() time.Duration {
	return c.Duration/2 + min(c.Retention+sweep, c.Duration/4)
}

// every is the time between two samples.
func (c *soakCmd) every() time.Duration {
	if c.Sample > 0 {
		return c.Sample
	}
	return min(2*time.Second, max(c.Duration/60, time.Millisecond))
}

// Run measures and reports.
func (c *soakCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	root, err := os.MkdirTemp(c.Dir, "aquifer-bench-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	rate, err := c.rate(ctx, root)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%.0f jobs/s for %s, %d restarts\n", rate, c.Duration, c.Restarts)
	rep, err := c.soak(ctx, root, rate)
	if err != nil {
		return err
	}
	if err := c.write(s.Out, rep); err != nil {
		return err
	}
	return errors.Join(rep.Tally.verdict("the node"), flatness(rep.Trends))
}

// rate is the given one, or the part of what the node takes at most.
func (c *soakCmd) rate(ctx context.Context, root string) (float64, error) {
	if c.Rate > 0 {
		return c.Rate, nil
	}
	w := c.workload(20_000)
	w.Warmup = 2000
	best, err := measure(ctx, root, c.contender("maximum", nodeSetup{durability: c.Durability}), w)
	if err != nil {
		return 0, fmt.Errorf("measure the maximum: %w", err)
	}
	return c.Fraction * best.JobsPerSecond, nil
}

func (c *soakCmd) soak(ctx context.Context, root string, rate float64) (_ soakReport, err error) {
	w := c.workload(max(1, int(rate*c.Duration.Seconds())))
	w.Rate = rate
	n, err := c.newNode(root, nodeSetup{durability: c.Durability, env: map[string]string{
		"AQUIFER_COMPLETED_TTL_SECONDS": strconv.Itoa(int(c.Retention.Seconds())),
		"AQUIFER_FAILED_TTL_SECONDS":    strconv.Itoa(int(c.Retention.Seconds())),
	}})
	if err != nil {
		return soakReport{}, err
	}
	r, err := newRun(root, w, w.Jobs)
	if err != nil {
		return soakReport{}, err
	}
	r.form.host, r.again = n.addr, 100*time.Millisecond
	k := &keeper{node: n, clk: r.clk}
	samples, err := c.live(ctx, r, k, w)
	if err = errors.Join(err, k.end(false), r.sinks.close()); err != nil {
		return soakReport{}, err
	}
	return soakReport{
		Machine: thisMachine(), Durability: c.Durability, Rate: rate, Starts: k.starts, Kills: len(k.crashes),
		JudgedFrom: c.judgedFrom().Seconds(), Trends: trends(samples, c.judgedFrom()), Samples: samples,
		EndToEnd: quantilesOf(r.ledger.stages(0, w.Jobs).endToEnd), Tally: r.ledger.tally(k.crashes),
	}, nil
}

// live runs load, restarts and sampling side by side until the last job has come through.
func (c *soakCmd) live(ctx context.Context, r *run, k *keeper, w workload) ([]sample, error) {
	// Past the end of the load only a node that has lost jobs, or is down, lets the run wait.
	ctx, cancel := context.WithTimeout(ctx, c.Duration+3*w.Stall)
	defer cancel()
	if err := k.start(ctx); err != nil {
		return nil, err
	}
	begin := r.clk.now()
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error {
		defer close(done)
		return r.open(ctx, w.Rate, 0, w.Jobs)
	})
	group.Go(func() error { return k.restarts(ctx, begin, c.moments()) })
	var samples []sample
	group.Go(func() (err error) {
		samples, err = c.sample(ctx, r, k, begin, done)
		return err
	})
	err := group.Wait()
	select {
	case <-time.After(linger):
	case <-ctx.Done():
	}
	return samples, err
}

func (c *soakCmd) sample(ctx context.Context, r *run, k *keeper, begin int64, done <-chan struct{}) ([]sample, error) {
	var samples []sample
	tick := time.NewTicker(c.every())
	defer tick.Stop()
	for {
		select {
		case <-done:
			return samples, nil
		case <-ctx.Done():
			return samples, ctx.Err()
		case <-tick.C:
		}
		s, ok, err := k.look(ctx)
		if err != nil {
			return samples, err
		}
		if ok {
			s.At, s.Delivered = time.Duration(r.clk.now()-begin), r.ledger.delivered.Load()
			samples = append(samples, s)
		}
	}
}
