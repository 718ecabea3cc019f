package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// paceCmd measures how exactly a node keeps to what its targets may get, and how fairly it shares that.
type paceCmd struct {
	nodeOptions
	Only  []string `help:"Only these scenes: exact, high, many, fair, hints." enum:"exact,high,many,fair,hints" default:"exact,high,many,fair,hints"`
	Quick bool     `help:"A few seconds of each, and fewer tenants and targets."`
	JSON  bool     `name:"json" help:"Print JSON instead of tables."`

	root string // of the temporary directories
}

// Help is shown by the command line.
func (paceCmd) Help() string {
	return `Queues jobs at a node, and looks at when its calls come to the target: one target at a moderate and at
a high rate, many slow targets, two tenants of which one has far more jobs or far slower calls, and a
target that asks for another rate while it is being called.

The exit code is 1 only if a target got more than it may, or a tenant less than its share, beyond what a
call that is delayed on its way can look like. Everything else is reported, and depends on the machine
and on who else is using it.`
}

// promise is a figure beside its limit. A promise that is kept decides the exit code.
type promise struct {
	check
	Judged bool `json:"judged"`
}

func judged(c check) promise   { return promise{c, true} }
func reported(c check) promise { return promise{c, false} }

// act is what one scene has shown.
type act struct {
	Scene    string    `json:"scene"`
	Calls    int       `json:"calls"`
	Seconds  float64   `json:"seconds"`
	Rate     float64   `json:"calls_per_second"`
	Most     int       `json:"most_calls_in_a_second"` // at one target
	MostOpen int       `json:"most_calls_open"`        // at all targets together
	Cores    float64   `json:"node_cores"`             // processor time of the node by time
	Waited   float64   `json:"node_waited_for_cores"`  // time that its threads waited for a core by time
	Sequence []float64 `json:"calls_per_second_by_half_seconds,omitempty"`
	Promises []promise `json:"promises,omitempty"`
}

// paceReport is the result.
type paceReport struct {
	Machine machine `json:"machine"`
	Acts    []act   `json:"scenes"`
}

// paceScale is how much of each scene is played.
type paceScale struct {
	tenants      []int // of one target at a moderate rate
	time         time.Duration
	high         float64 // calls per second
	targets      int
	queued       int // jobs of the tenant that has many
	bursts       int // of the one that has few
	hint, faster time.Duration
}

func (c *paceCmd) scale() paceScale {
	if c.Quick {
		return paceScale{
			tenants: []int{10}, time: 2 * time.Second, high: 1000, targets: 200, queued: 500, bursts: 1,
			hint: time.Second, faster: 6 * time.Second,
		}
	}
	return paceScale{
		tenants: []int{1, 10, 1000}, time: 20 * time.Second, high: 5000, targets: 2000, queued: 10_000, bursts: 5,
		hint: 3 * time.Second, faster: 9 * time.Second,
	}
}

// Run measures and reports.
func (c *paceCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	if c.root, err = os.MkdirTemp(c.Dir, "aquifer-bench-"); err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.root)) }()
	rep := paceReport{Machine: thisMachine()}
	for _, scene := range c.scenes() {
		a, err := scene(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(s.Err, a)
		rep.Acts = append(rep.Acts, a)
	}
	if err := c.write(s.Out, rep); err != nil {
		return err
	}
	return kept(rep.Acts)
}

func (a act) String() string {
	return fmt.Sprintf("%s: %.1f calls/s, at most %d in a second, %d open", a.Scene, a.Rate, a.Most, a.MostOpen)
}

// scenes are those to be played.
func (c *paceCmd) scenes() []func(context.Context) (act, error) {
	scale := c.scale()
	var list []func(context.Context) (act, error)
	if slices.Contains(c.Only, "exact") {
		for _, tenants := range scale.tenants {
			list = append(list, func(ctx context.Context) (act, error) { return c.exact(ctx, scale, tenants) })
		}
	}
	for _, scene := range []struct {
		name string
		play func(context.Context, paceScale) (act, error)
	}{
		{"high", c.high}, {"many", c.many}, {"fair", c.burst}, {"fair", c.slow}, {"hints", c.hints},
	} {
		if slices.Contains(c.Only, scene.name) {
			list = append(list, func(ctx context.Context) (act, error) { return scene.play(ctx, scale) })
		}
	}
	return list
}

// errPace is that a target got too much, or a tenant too little.
var errPace = errors.New("pace not kept")

// kept is an error if a promise was broken that is judged.
func kept(acts []act) error {
	var errs []error
	for _, a := range acts {
		for _, p := range a.Promises {
			if p.Judged && !p.OK {
				errs = append(errs, fmt.Errorf("%w: %s: %s is %.4g, must be %s", errPace, a.Scene, p.Figure, p.Got, p.limit()))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *paceCmd) write(w io.Writer, rep paceReport) error {
	if c.JSON {
		return writeIndented(w, rep)
	}
	fmt.Fprintf(w, "%s\n\n", rep.Machine)
	seen := table{head: []string{"scene", "calls", "s", "calls/s", "most in a second", "most open", "node's cores", "it waited for"}}
	promises := table{head: []string{"scene", "figure", "must be", "is", "", "judged"}}
	for _, a := range rep.Acts {
		seen.add(a.Scene, fmt.Sprint(a.Calls), fmt.Sprintf("%.1f", a.Seconds), fmt.Sprintf("%.2f", a.Rate), fmt.Sprint(a.Most),
			fmt.Sprint(a.MostOpen), fmt.Sprintf("%.3f", a.Cores), fmt.Sprintf("%.3f", a.Waited))
		for _, p := range a.Promises {
			word := "no"
			if p.Judged {
				word = "yes"
			}
			promises.add(a.Scene, p.Figure, p.limit(), fmt.Sprintf("%.4g", p.Got), p.word(), word)
		}
	}
	if err := seen.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := promises.write(w); err != nil {
		return err
	}
	for _, a := range rep.Acts {
		if a.Sequence != nil {
			fmt.Fprintf(w, "\n%s, calls/s in each half second: %s\n", a.Scene, strings.Trim(fmt.Sprint(a.Sequence), "[]"))
		}
	}
	return nil
}
