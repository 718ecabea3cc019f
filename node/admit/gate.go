package admit

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// Config is what a Gate is built from.
type Config struct {
	Limits  Limits
	Sampler *Sampler
	// RetryAfter is what the first refusal asks its caller to wait; each further one in a row asks
	// for twice as much, up to RetryAfterMax. 0 means DefaultRetryAfter.
	RetryAfter   time.Duration
	MaxBodyBytes int64 // only shown
	// Collect finds the memory that is not needed any more; nil: debug.FreeOSMemory.
	Collect    func()
	Registerer prometheus.Registerer // nil: no metrics
}

// DefaultRetryAfter and RetryAfterMax bound what a refusal asks its caller to wait, unless the
// configuration starts above the bound.
const (
	DefaultRetryAfter = 5 * time.Second
	RetryAfterMax     = time.Minute
)

// Gate admits or refuses new work. It is safe for concurrent use, without a lock: each number stands
// for itself, and of several refusals at once each one gets a wait of its own.
type Gate struct {
	config   Config
	reserved atomic.Int64 // bytes of request bodies that are being read
	refusals *prometheus.CounterVec
	streak   atomic.Int64 // refusals since the last pass
}

// New returns a gate.
func New(c Config) *Gate {
	if c.RetryAfter <= 0 {
		c.RetryAfter = DefaultRetryAfter
	}
	if c.Collect == nil {
		c.Collect = debug.FreeOSMemory
	}
	g := &Gate{config: c, refusals: promauto.With(c.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_admission_refusals_total",
		Help: "New jobs refused, by the limit that was passed.",
	}, []string{"reason"})}
	for _, reason := range []string{Memory, DBSize, SyncLag, QueueFairShare, UpstreamQueue, WebhookBacklog} {
		g.refusals.WithLabelValues(reason)
	}
	return g
}

// Admit returns nil if a new job may come, whose record will have about so many bytes, else a fault
// of kind Overloaded with the limit and the time to wait.
func (g *Gate) Admit(bytes int64) error {
	refused := Decide(g.config.Limits, g.read())
	if refused == nil {
		g.config.Sampler.Add(bytes)
		if g.streak.Load() != 0 {
			g.streak.Store(0)
		}
		return nil
	}
	return g.refuse(refused)
}

// Forgo tells that so many bytes that Admit has let in are not stored after all.
func (g *Gate) Forgo(bytes int64) { g.config.Sampler.Add(-bytes) }

// refuse counts a refusal and says when to come again.
func (g *Gate) refuse(refused *fault.Error) error {
	g.refusals.WithLabelValues(refused.Limit.Reason).Inc()
	refused.RetryAfter = g.wait(g.streak.Add(1))
	return refused
}

func (g *Gate) read() Readings {
	r := g.config.Sampler.Read(time.Now())
	r.Reserved = g.reserved.Load()
	return r
}

// wait is what the n-th refusal in a row asks for.
func (g *Gate) wait(n int64) time.Duration {
	limit := max(RetryAfterMax, g.config.RetryAfter)
	wait := g.config.RetryAfter
	for ; n > 1 && wait < limit; n-- {
		wait *= 2
	}
	return min(wait, limit)
}

// RetryAfter is what the latest refusal in a row asked for, and before the first one what that will:
// the time to wait for anyone who is turned away now.
func (g *Gate) RetryAfter() time.Duration { return g.wait(g.streak.Load()) }

// Reserve sets memory aside for bytes of a request body that are about to be read, which the readings do
// not show yet, or returns the same fault as Admit. Give what was reserved to Release when it is free.
func (g *Gate) Reserve(bytes int64) error {
	if refused := DecideBody(g.config.Limits, g.reserved.Add(bytes)); refused != nil {
		g.reserved.Add(-bytes)
		return g.refuse(refused)
	}
	return nil
}

// Release ends a reservation.
func (g *Gate) Release(bytes int64) { g.reserved.Add(-bytes) }

// View is the gate as GET /health shows it. A limit of 0 is off.
type View struct {
	MemoryMB          int64
	MemoryReservedMB  int64
	MemoryLimitMB     int64
	DBBytes           int64
	DBMaxBytes        int64
	MaxBodyBytes      int64
	RetryAfterSeconds int64
	SyncLagMS         int64
}

// View returns the latest readings and what is in force.
func (g *Gate) View() View {
	r := g.read()
	return View{
		MemoryMB:          r.Memory / MB,
		MemoryReservedMB:  r.Reserved / MB,
		MemoryLimitMB:     g.config.Limits.Memory / MB,
		DBBytes:           r.DB,
		DBMaxBytes:        g.config.Limits.dbLimit(r),
		MaxBodyBytes:      g.config.MaxBodyBytes,
		RetryAfterSeconds: int64((g.RetryAfter() + time.Second - 1) / time.Second),
		SyncLagMS:         r.SyncLag.Milliseconds(),
	}
}
