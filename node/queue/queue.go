package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Config is what a queue is made of.
type Config struct {
	// Line is the kind of work that waits here.
	Line job.Line
	// Window is how many entries of a lane are kept in memory; 0 means 64. A larger one reads the store
	// less often and takes more memory for lanes that have much to do.
	Window int
	// HeldBytes is how many bytes of jobs are kept in memory while they wait, so that their turn need
	// not read them; 0 means 16 MiB.
	HeldBytes int64
	// Settings returns what a host may take. It is asked when a target is met, and at Reconfigure, with locks held: it
	// must not call the queue.
	Settings func(host string) pace.Settings
	// Paused says whether nothing is to be sent to a host. It is asked when Settings is; nil: never.
	Paused func(host string) bool
	// CountTenants has the queue know how much each tenant has to do at all targets together.
	CountTenants bool
	// TenantMetrics adds metrics of single tenants. It needs CountTenants.
	TenantMetrics bool
	Backlog       Backlog
	Runner        Runner
	Logger        *slog.Logger // nil: silent
	// Registerer takes the metrics; nil: nobody does.
	Registerer prometheus.Registerer
}

// Backlog is where lanes that do not fit into memory wait. store.Lanes is one.
type Backlog interface {
	// Lane returns up to limit entries of one lane behind after, in order.
	Lane(ctx context.Context, line job.Line, lane job.Lane, after job.Order, limit int) ([]job.Entry, error)
	// Ahead counts the entries of a lane that are between the orders after and before, both exclusive,
	// up to limit.
	Ahead(ctx context.Context, line job.Line, lane job.Lane, after, before job.Order, limit int) (int, error)
}

// Queue is all that waits of one line. All its methods are safe for concurrent use.
type Queue struct {
	cfg     Config
	epoch   time.Time // what waiting times are measured from
	counts  counts
	tenants *tenants     // nil if they are not counted
	held    atomic.Int64 // bytes of the jobs held in windows

	busy atomic.Bool // Run is active, until its last goroutine has ended
	// run is set while turns may start. It is loaded under the lock of the target that starts one,
	// so whoever clears it and then takes a target's lock knows that the target starts nothing more.
	run     atomic.Pointer[run]
	working sync.WaitGroup // turns, workers, readers and armed timers
	workers workers

	mu      sync.RWMutex // guards targets: a name is one target. Taken before a target's lock, never after
	targets map[string]*target
	pruneAt int // so many targets make it worth looking for idle ones
}

// run is one call of Run.
type run struct {
	reads context.Context // ends when turns no longer start
	turns context.Context // does not end
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	if cfg.Window <= 0 {
		cfg.Window = 64
	}
	if cfg.HeldBytes <= 0 {
		cfg.HeldBytes = 16 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	q := &Queue{cfg: cfg, epoch: time.Now(), targets: map[string]*target{}, pruneAt: maxIdleTargets}
	q.counts.metrics = newMetrics(q)
	if cfg.CountTenants {
		q.tenants = newTenants()
	}
	return q
}

// ErrRunning is the error of a Run beside another one.
var ErrRunning = errors.New("queue: already running")

// Run starts turns until ctx ends, and returns when those that are open have ended. It may be called
// again then. Before and after it the queue takes work all the same.
func (q *Queue) Run(ctx context.Context) error {
	if !q.busy.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer q.busy.Store(false)
	if ctx.Err() != nil {
		return nil
	}
	q.workers.open()
	q.run.Store(&run{reads: ctx, turns: context.WithoutCancel(ctx)})
	q.each((*target).start)
	<-ctx.Done()
	q.run.Store(nil)
	q.each((*target).stop)
	q.workers.close()
	q.working.Wait()
	return nil
}

// Reconfigure asks for the settings of every target again. Tenants that were slowed down by their own
// failures are so no longer where the settings have changed in more than their parts, and at the hosts that renew tells; it
// may be nil.
func (q *Queue) Reconfigure(renew func(host string) bool) {
	q.each(func(t *target) { t.configure(renew != nil && renew(t.host)) })
}

func (q *Queue) paused(host string) bool { return q.cfg.Paused != nil && q.cfg.Paused(host) }

// each calls do for every target, one after the other.
func (q *Queue) each(do func(*target)) {
	q.mu.RLock()
	all := make([]*target, 0, len(q.targets))
	for _, t := range q.targets {
		all = append(all, t)
	}
	q.mu.RUnlock()
	for _, t := range all {
		do(t)
	}
}

// Load is how much there is to do, as a target may want to know it.
type Load struct {
	Total         int64   // unfinished work of the whole queue
	Waiting       int64   // of it, what waits for its turn; not what waits for a retry
	Rate          float64 // turns a second at the target
	ActiveLanes   int     // lanes of the target with unfinished work
	TargetBacklog int     // unfinished work of the target
	LaneBacklog   int     // unfinished work of the lane
	// MaxBacklog is how much unfinished work the target wants to be kept, if it has said so, and until when that holds.
	MaxBacklog      pace.Hint[int]
	MaxBacklogUntil time.Time
}

// Load returns the load as a lane sees it.
func (q *Queue) Load(l job.Lane) Load {
	if t := q.find(l.Target); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.load(t.lanes[l.Tenant])
	}
	return Load{Total: q.counts.backlog.Load(), Waiting: q.counts.waiting.Load(), Rate: q.cfg.Settings(l.Host()).Own().RPS}
}

// Loads calls see for each target, with its load as a lane without work sees it.
func (q *Queue) Loads(see func(Load)) {
	q.each(func(t *target) {
		t.mu.Lock()
		l := t.load(nil)
		t.mu.Unlock()
		see(l)
	})
}

// Stats counts what is in the queue.
type Stats struct {
	Backlog  int // unfinished work, wherever it is
	Waiting  int // of it, what waits for its turn; not what waits for a retry
	InFlight int // slots that are taken
	Targets  int // targets with unfinished work
	Lanes    int // lanes with unfinished work
}

// Stats returns what is in the queue now.
func (q *Queue) Stats() Stats {
	c := &q.counts
	return Stats{
		Backlog: int(c.backlog.Load()), Waiting: int(c.waiting.Load()), InFlight: int(c.inFlight.Load()),
		Targets: int(c.targets.Load()), Lanes: int(c.lanes.Load()),
	}
}

// WaitIdle returns when nothing waits for its turn and no turn is running, or with the error of ctx.
// What waits for a retry does not count.
func (q *Queue) WaitIdle(ctx context.Context) error { return q.counts.idle(ctx) }
