// Package drain hands a node over from one tenant to the next: it tells another system, the sink, of every
// job that has ended, and when the node has had no work for a while it forgets those jobs and is free.
//
// What is told comes from the ledger of the store, in batches. A batch is told until the sink has taken it, with
// the same id and the same entries, also by the next process; so the sink may see it twice and never misses one.
// What is forgotten are exactly the jobs of batches that the sink has taken. No state keeps new work away:
// whatever comes makes the node active again.
package drain

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// ErrStarted is the error of a second Run.
var ErrStarted = errors.New("drain: already started")

// Ledger is where the jobs stand that have ended. store.Ledger has the contract.
type Ledger interface {
	Ledgered() uint64
	LedgerBatch(ctx context.Context, limit int) ([]job.LedgerEntry, error)
	LedgerFlushed(ctx context.Context, last job.Order) error
	ClearFlushed(ctx context.Context) (int, error)
}

// Drain is the drain mode of one node. Its methods are safe for concurrent use.
type Drain struct {
	Config
	sink    sink
	metrics metrics
	started atomic.Bool
	handing chan struct{} // of one: the node has been idle for long enough

	flushing sync.Mutex // held by who flushes, so that one batch is told after the other

	mu       sync.Mutex // guards what follows
	machine  machine
	failures int // flushes in a row that went wrong
}

// New returns a drain mode that does nothing yet. The error lists everything that is wrong with c, by the names
// of the settings.
func New(c Config) (*Drain, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Drain{
		Config: c, sink: c.newSink(), metrics: newMetrics(c.Registerer), handing: make(chan struct{}, 1),
		machine: machine{quiet: c.Quiet, timer: c.Timer, state: Active},
	}, nil
}

// View is what GET /health shows.
type View struct {
	State State `json:"state"`
	// Failures counts the flushes in a row that went wrong: the sink does not take what it is told.
	Failures int `json:"failures"`
}

// View returns how things stand. Work shows at once, also before the next look: who gives nodes away by their states
// would else give one to two tenants.
func (d *Drain) View() View {
	now := d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	v := View{State: d.machine.state, Failures: d.failures}
	if d.machine.worked(now) {
		v.State = Active
	}
	return v
}

func (d *Drain) read() work {
	return work{unfinished: d.Unfinished(), ended: d.Ledger.Ledgered()}
}

// watching is how often the node is looked at.
const watching = 5 * time.Second

// Run hands the node over whenever it is idle, and tells the sink from time to time if it is to, until ctx
// ends. A sink or a store that fails is not an error: it is tried again.
func (d *Drain) Run(ctx context.Context) error {
	if !d.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	d.look()
	var loops sync.WaitGroup
	loops.Go(func() { d.watch(ctx) })
	loops.Go(func() { d.work(ctx) })
	loops.Wait()
	return nil
}

// watch sees to it that the state follows what the node does, also while a sink hangs.
func (d *Drain) watch(ctx context.Context) {
	ticks := time.NewTicker(watching)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if d.look() {
			select {
			case d.handing <- struct{}{}:
			default:
			}
		}
	}
}

// look brings the state in line with what the node does, and reports whether the node is to be handed over.
func (d *Drain) look() bool {
	reading := d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	before, due := d.machine.state, false
	d.machine, due = d.machine.observe(time.Now(), reading)
	if now := d.machine.state; now != before {
		d.Logger.Info("drain state", "state", string(now))
	}
	return due
}

// work flushes, one thing after another.
func (d *Drain) work(ctx context.Context) {
	due := d.nextBatch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.handing:
			d.handOver(ctx)
			d.forgetReadings()
		case <-due:
			_ = d.flush(ctx, LedgerBatch, func() bool { return true }) // logged, and tried again with the next
			due = d.nextBatch()
		}
	}
}

// forgetReadings has a hand-over that went wrong wait for the next reading.
func (d *Drain) forgetReadings() {
	select {
	case <-d.handing:
	default:
	}
}

// nextBatch tells when the sink is to be told again: never, unless there is an interval.
func (d *Drain) nextBatch() <-chan time.Time {
	if d.BatchInterval == 0 {
		return nil
	}
	return time.After(d.jittered(d.BatchInterval))
}

// handOver tells the sink the rest, and then forgets the jobs of which it was told. New work ends it, and
// nothing is forgotten.
func (d *Drain) handOver(ctx context.Context) {
	if d.flush(ctx, InstanceIdle, d.look) != nil || !d.look() {
		return
	}
	cleared, err := d.Ledger.ClearFlushed(ctx)
	d.metrics.cleared.Add(float64(cleared))
	if err != nil {
		d.Logger.Warn("not cleared of what was flushed, and tries again", "cleared", cleared, "error", err)
		return
	}
	if !d.look() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.machine = d.machine.handedOver()
	d.Logger.Info("drain state", "state", string(d.machine.state), "cleared", cleared)
}
