package inbound

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// interval is the time from one tick to the next.
const interval = time.Second

// minAdvertised is the lowest rate that a caller is told: it is slowed down, never stopped.
const minAdvertised = 0.01

// Meter reads the traffic of a node and tells its callers how fast they may come. Its methods are safe
// for concurrent use, except that Run is called by one goroutine at a time.
type Meter struct {
	backlog    func() int
	samples    samples
	callers    *callers
	advice     atomic.Pointer[advice] // of the last tick
	controller *Controller            // of the goroutine of Run
}

// advice is what a tick has come to.
type advice struct {
	State
	callers int    // as many were active
	text    string // what each of so many is told
}

// each is the rate of one of so many callers.
func (a *advice) each(callers int) float64 { return max(a.Rate/float64(callers), minAdvertised) }

// tell is what one of so many callers is told.
func (a *advice) tell(callers int) string { return strconv.FormatFloat(a.each(callers), 'f', 2, 64) }

// NewMeter returns a meter. backlog returns how many jobs the node has accepted and not dispatched.
func NewMeter(c Config, backlog func() int) *Meter {
	m := &Meter{backlog: backlog, callers: newCallers(), controller: NewController(c, time.Now())}
	m.publish(m.controller.State())
	return m
}

// Run adjusts the rate once a second until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var buf []time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			buf = m.tick(buf)
		}
	}
}

// tick takes the readings of a tick, in buf, which it returns for the next one.
func (m *Meter) tick(buf []time.Duration) []time.Duration {
	m.callers.tick()
	inserts, latencies := m.samples.take(buf[:0])
	r := Readings{Inserts: inserts, Latencies: latencies, Backlog: m.backlog()}
	m.publish(m.controller.Tick(time.Now(), r))
	return latencies
}

func (m *Meter) publish(s State) {
	a := &advice{State: s, callers: m.callers.count()}
	a.text = a.tell(a.callers)
	m.advice.Store(a)
}

// Inserted counts a new job that is stored, and how long the store took for it.
func (m *Meter) Inserted(took time.Duration) { m.samples.add(took) }

// Advertise notes that a user came, "" for one that did not say who it is, and returns how many jobs a
// second each caller may hand in, as it stands in the answer's header: with two decimals.
func (m *Meter) Advertise(user string) string {
	m.callers.see(user)
	a, callers := m.advice.Load(), m.callers.count()
	if callers == a.callers { // most of the time
		return a.text
	}
	return a.tell(callers)
}

// View is the meter as GET /health shows it. Rates are in jobs a second with two decimals, latencies
// in ms with three; a latency of 0 is not known.
type View struct {
	AdvertisedRPS    float64 // for all callers together
	PerCallerRPS     float64
	ActiveCallers    int
	InsertsPerSec    float64
	P95InsertMS      float64
	BaselineInsertMS float64
	BenchmarkRPS     float64
	ThresholdRPS     float64
	ServerBacklog    int
	Cuts, Raises     int
	LastAdjustment   string
}

// View returns what the last tick has come to, and who is active.
func (m *Meter) View() View {
	s, active := m.advice.Load(), m.callers.count()
	return View{
		AdvertisedRPS:    decimals(s.Rate, 100),
		PerCallerRPS:     decimals(s.each(active), 100),
		ActiveCallers:    active,
		InsertsPerSec:    decimals(s.InsertsPerSec, 100),
		P95InsertMS:      decimals(s.P95.Seconds()*1000, 1000),
		BaselineInsertMS: decimals(s.Baseline.Seconds()*1000, 1000),
		BenchmarkRPS:     m.controller.benchmark,
		ThresholdRPS:     decimals(s.Threshold, 100),
		ServerBacklog:    s.Backlog,
		Cuts:             s.Cuts, Raises: s.Raises,
		LastAdjustment: string(s.LastAdjustment),
	}
}

// decimals rounds v to parts of a unit.
func decimals(v, parts float64) float64 { return math.Round(v*parts) / parts }
