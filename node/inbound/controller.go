package inbound

import (
	"slices"
	"time"
)

// Config is where a Controller starts from. A value that is not positive means the default, and one
// above 1e9 counts as 1e9.
type Config struct {
	BenchmarkRPS float64 // jobs a second that the node is known to take
	StartPercent float64 // of BenchmarkRPS, where the rate starts
}

// The defaults of Config.
const (
	DefaultBenchmarkRPS = 400
	DefaultStartPercent = 40
)

const (
	minRPS     = 1.0
	maxOfBench = 10 // the rate goes up to this many times the benchmark

	minSamples   = 20 // fewer latencies say nothing
	slowFactor   = 1.5
	slowSlack    = 2 * time.Millisecond
	drift        = 0.01 // how far the baseline goes towards a slower reading
	growingTicks = 3    // so many readings in a row with more backlog than the one before are congestion

	cutFactor   = 0.7
	cutCooldown = 3  // ticks from one cut to the next
	patience    = 10 // ticks that one cut gets to end a congestion, before there are more
	kneePart    = 0.9

	overFactor  = 1.5 // callers that come faster than this do not heed the rate
	busyPart    = 0.8 // callers that come slower than this do not need a higher one
	quickRaise  = 1.5 // below the threshold
	carefulRise = 1.05
)

// Adjustment is what a tick did with the rate, in the words of GET /health.
type Adjustment string

// The set is closed.
const (
	Start        Adjustment = "start" // there was no tick yet
	Raise        Adjustment = "raise"
	Hold         Adjustment = "hold"
	CutLatency   Adjustment = "cut: insert latency"
	CutBacklog   Adjustment = "cut: backlog growing"
	HoldForCut   Adjustment = "hold: waiting for last cut"
	HoldOverRate Adjustment = "hold: callers over advertised rate"
)

// Readings are what happened since the last tick.
type Readings struct {
	Inserts   int             // jobs stored
	Latencies []time.Duration // how long storing took, for all of them or a sample, in any order
	Backlog   int             // jobs that are accepted and not dispatched, now
}

// State is what a Controller has come to.
type State struct {
	Rate           float64       // jobs a second from all callers together; finite and at least 1
	Threshold      float64       // the rate from which on it rises carefully
	InsertsPerSec  float64       // at the last tick
	P95            time.Duration // of the latencies at the last tick; 0: there were too few
	Baseline       time.Duration // P95 of a node that keeps up; 0: not known yet
	Backlog        int           // at the last tick
	Cuts, Raises   int           // since the start
	LastAdjustment Adjustment
}

// Controller sets the rate of all callers together. It has one owner at a time.
type Controller struct {
	state     State
	benchmark float64
	max       float64 // highest rate

	ticked    time.Time // the last tick, at first the start
	cooldown  int       // ticks until the next cut is allowed
	congested bool      // there was a cut, and no healthy tick since the first one
	episode   int       // ticks since that first cut
	grown     int       // readings in a row with more backlog than the one before
	compared  bool      // there is a reading to compare a backlog with
}

// NewController returns a controller that starts at now.
func NewController(c Config, now time.Time) *Controller {
	benchmark := positive(c.BenchmarkRPS, DefaultBenchmarkRPS)
	start := benchmark * (positive(c.StartPercent, DefaultStartPercent) / 100)
	highest := max(maxOfBench*benchmark, minRPS)
	return &Controller{
		benchmark: benchmark, max: highest, ticked: now,
		state: State{
			Rate: min(max(start, minRPS), highest), Threshold: max(benchmark, minRPS), LastAdjustment: Start,
		},
	}
}

func positive(v, otherwise float64) float64 {
	if v > 0 {
		return min(v, 1e9)
	}
	return otherwise
}

// State returns what the last tick has come to.
func (c *Controller) State() State { return c.state }

// Tick takes what happened since the last tick and adjusts the rate. It is meant for once a second,
// and sorts r.Latencies.
func (c *Controller) Tick(now time.Time, r Readings) State {
	s := &c.state
	s.InsertsPerSec = perSecond(r.Inserts, now.Sub(c.ticked))
	c.ticked = now
	c.cooldown = max(c.cooldown-1, 0)
	c.episode++
	slow, growing := c.slow(r.Latencies), c.growing(r.Backlog)
	switch {
	case slow:
		s.LastAdjustment = c.relieve(CutLatency)
	case growing:
		s.LastAdjustment = c.relieve(CutBacklog)
	default:
		c.congested = false
		s.LastAdjustment = c.offer()
	}
	return *s
}

// perSecond is a count over a span. A clock that stands still counts as the second that a tick takes.
func perSecond(n int, span time.Duration) float64 {
	if span <= 0 {
		span = time.Second
	}
	return float64(n) / span.Seconds()
}

// slow reads the latencies, and reports whether they are far above those of a node that keeps up.
func (c *Controller) slow(latencies []time.Duration) bool {
	s := &c.state
	s.P95 = p95(latencies)
	if s.P95 == 0 {
		return false
	}
	base := s.Baseline
	if base == 0 || s.P95 < base {
		s.Baseline = s.P95
		return false
	}
	s.Baseline += time.Duration(drift * float64(s.P95-base))
	return float64(s.P95) > slowFactor*float64(base)+float64(slowSlack)
}

// p95 is the 95th percentile by nearest rank, at least 1 ns, or 0 for too few latencies.
func p95(latencies []time.Duration) time.Duration {
	n := len(latencies)
	if n < minSamples {
		return 0
	}
	slices.Sort(latencies)
	return max(latencies[(n*95+99)/100-1], 1)
}

// growing reads the backlog, and reports whether it goes up and up.
func (c *Controller) growing(backlog int) bool {
	if c.compared && backlog > c.state.Backlog {
		c.grown++
	} else {
		c.grown = 0
	}
	c.state.Backlog, c.compared = backlog, true
	return c.grown >= growingTicks
}

// relieve cuts the rate of a congested node, unless it has to be seen yet what the last cut does.
func (c *Controller) relieve(why Adjustment) Adjustment {
	s := &c.state
	first := !c.congested
	switch {
	case c.cooldown > 0, !first && c.episode < patience:
		return HoldForCut
	case s.Rate == minRPS:
		return Hold
	case first:
		c.congested, c.episode = true, 0
		s.Threshold = max(kneePart*s.Rate, minRPS)
	}
	s.Rate = max(cutFactor*s.Rate, minRPS)
	s.Cuts++
	c.cooldown = cutCooldown
	return why
}

// offer raises the rate of a healthy node if its callers use it up.
func (c *Controller) offer() Adjustment {
	s := &c.state
	factor := carefulRise
	if s.Rate < s.Threshold {
		factor = quickRaise
	}
	switch {
	case s.InsertsPerSec > overFactor*s.Rate:
		return HoldOverRate
	case s.InsertsPerSec < busyPart*s.Rate, s.Rate == c.max:
		return Hold
	}
	s.Rate = min(factor*s.Rate, c.max)
	s.Raises++
	return Raise
}
