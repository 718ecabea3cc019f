package pace

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tenant is a flow with a number of jobs.
type tenant struct {
	name   string
	jobs   int
	served int
	cost   float64
	weight float64
}

func newTenant(name string, jobs int) *Flow[*tenant] {
	return &Flow[*tenant]{Lane: &tenant{name: name, jobs: jobs, cost: 1, weight: 1}}
}

// serve gives n turns and returns who got them.
func serve(s *Share[*tenant], n int) string {
	var order strings.Builder
	for range n {
		f := s.Next()
		if f == nil {
			break
		}
		f.Lane.jobs--
		f.Lane.served++
		order.WriteString(f.Lane.name)
		s.Serve(f.Lane.cost, f.Lane.weight, f.Lane.jobs > 0)
	}
	return order.String()
}

func TestShareTakesTurns(t *testing.T) {
	var s Share[*tenant]
	if s.Next() != nil || s.Len() != 0 {
		t.Fatal("an empty share has a next")
	}
	for _, f := range []*Flow[*tenant]{newTenant("a", 4), newTenant("b", 2), newTenant("c", 3)} {
		s.Add(f)
		s.Add(f)
	}
	if got, want := serve(&s, 20), "abcabcaca"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFA01_NewcomerIsNext(t *testing.T) {
	var s Share[*tenant]
	s.Add(newTenant("a", 1000))
	serve(&s, 500)
	s.Add(newTenant("b", 1))
	if got := serve(&s, 2); !strings.Contains(got, "b") {
		t.Errorf("of two turns %s got all", got)
	}
}

func TestNewcomerWaitsForOneTurnOfEach(t *testing.T) {
	var s Share[*tenant]
	for i := range 20 {
		s.Add(newTenant(string(rune('a'+i)), 1000))
	}
	serve(&s, 137)
	s.Add(newTenant("B", 1))
	if got := strings.IndexByte(serve(&s, 100), 'B'); got < 0 || got > 20 {
		t.Errorf("the newcomer waited for %d turns of 20 others", got)
	}
}

func TestOneJobAtATimeIsNoWayToTheFront(t *testing.T) {
	var s Share[*tenant]
	busy, quick := newTenant("b", 1000), newTenant("q", 0)
	s.Add(busy)
	for range 400 {
		if !quick.waiting {
			quick.Lane.jobs++
			s.Add(quick)
		}
		serve(&s, 1)
	}
	if d := busy.Lane.served - quick.Lane.served; d < -1 || d > 1 {
		t.Errorf("%d turns against %d", busy.Lane.served, quick.Lane.served)
	}
}

func TestWeightAndCost(t *testing.T) {
	var s Share[*tenant]
	heavy, light, costly := newTenant("h", 1e6), newTenant("l", 1e6), newTenant("c", 1e6)
	heavy.Lane.weight, costly.Lane.cost = 3, 10
	for _, f := range []*Flow[*tenant]{heavy, light, costly} {
		s.Add(f)
	}
	serve(&s, 4100)
	for f, want := range map[*Flow[*tenant]]int{heavy: 3000, light: 1000, costly: 100} {
		if n := f.Lane.served; n < want-2 || n > want+2 {
			t.Errorf("%s got %d turns, want %d", f.Lane.name, n, want)
		}
	}
}

func TestServeOfAFlowWithoutWorkCostsNothing(t *testing.T) {
	var s Share[*tenant]
	gone := newTenant("g", 1)
	s.Add(gone)
	s.Add(newTenant("a", 5))
	s.Serve(0, 1, false)
	if got := serve(&s, 1); got != "a" || s.Now() != 0 {
		t.Errorf("got %s at %v", got, s.Now())
	}
	if s.Forget() != gone || s.Forget() != nil {
		t.Error("the flow without work is not forgotten once")
	}
}

func TestForgetKeepsWhoWouldGain(t *testing.T) {
	var s Share[*tenant]
	once, busy := newTenant("o", 1), newTenant("b", 3)
	s.Add(once)
	s.Add(busy)
	serve(&s, 2)
	if s.Forget() != nil {
		t.Fatal("forgotten although its turn is not over")
	}
	serve(&s, 1)
	if s.Forget() != once {
		t.Fatal("not forgotten when its turn is over")
	}
	serve(&s, 1)
	if s.Forget() != busy || s.Forget() != nil {
		t.Fatal("a share without work does not forget all")
	}
}

// model runs random additions and turns and checks what must hold after each.
type model struct {
	t       *rapid.T
	share   Share[*tenant]
	flows   []*Flow[*tenant]
	now     float64
	dropped map[*Flow[*tenant]]bool
}

func (m *model) add() {
	f := rapid.SampledFrom(m.flows).Draw(m.t, "flow")
	f.Lane.jobs += rapid.IntRange(1, 5).Draw(m.t, "jobs")
	m.share.Add(f)
	m.dropped[f] = false
}

func (m *model) turn() {
	before := map[*Flow[*tenant]]float64{}
	for _, w := range m.share.waiting {
		before[w.flow] = w.start
	}
	f := m.share.Next()
	if f == nil {
		return
	}
	for other, at := range before {
		if at < before[f] {
			m.t.Fatalf("%s is served at %v before %s at %v", f.Lane.name, before[f], other.Lane.name, at)
		}
	}
	serve(&m.share, 1)
}

func (m *model) forget() {
	f := m.share.Forget()
	if f == nil {
		return
	}
	if f.waiting || m.dropped[f] || f.finish > m.share.Now() {
		m.t.Fatalf("%s is forgotten: waiting %v, before %v", f.Lane.name, f.waiting, m.dropped[f])
	}
	m.dropped[f] = true
}

func (m *model) check() {
	if m.share.now < m.now {
		m.t.Fatalf("virtual time went from %v to %v", m.now, m.share.now)
	}
	m.now = m.share.now
	work := 0
	for _, f := range m.flows {
		if f.waiting != (f.Lane.jobs > 0) {
			m.t.Fatalf("%s has %d jobs, waiting %v", f.Lane.name, f.Lane.jobs, f.waiting)
		}
		if f.waiting {
			work++
		}
	}
	if work != m.share.Len() {
		m.t.Fatalf("%d flows have work, %d wait", work, m.share.Len())
	}
	for _, w := range m.share.waiting {
		if w.start < m.now {
			m.t.Fatalf("%s starts at %v, before now %v", w.flow.Lane.name, w.start, m.now)
		}
	}
}

func TestShareKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, dropped: map[*Flow[*tenant]]bool{}}
		for i := range rapid.IntRange(1, 8).Draw(t, "flows") {
			f := newTenant(fmt.Sprint(i), 0)
			f.Lane.weight = rapid.Float64Range(0.1, 10).Draw(t, "weight")
			f.Lane.cost = rapid.Float64Range(0, 10).Draw(t, "cost")
			m.flows = append(m.flows, f)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			rapid.SampledFrom([]func(){m.add, m.turn, m.turn, m.forget}).Draw(t, "step")()
			m.check()
		}
		serve(&m.share, math.MaxInt)
		for range m.flows {
			m.forget()
		}
		if m.share.resting != nil || m.share.newest != nil {
			t.Fatal("something rests in a share without work")
		}
	})
}

// While all have work, no two differ by more than one turn of each, relative to their weights.
func TestShareIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Share[*tenant]
		var flows []*Flow[*tenant]
		for i := range rapid.IntRange(2, 6).Draw(t, "flows") {
			f := newTenant(fmt.Sprint(i), 1e9)
			f.Lane.weight = rapid.Float64Range(0.1, 10).Draw(t, "weight")
			f.Lane.cost = rapid.Float64Range(0.1, 10).Draw(t, "cost")
			flows = append(flows, f)
			s.Add(f)
		}
		serve(&s, rapid.IntRange(0, 500).Draw(t, "turns"))
		for _, a := range flows {
			for _, b := range flows {
				one := func(f *Flow[*tenant]) float64 { return f.Lane.cost / f.Lane.weight }
				if d := float64(a.Lane.served)*one(a) - float64(b.Lane.served)*one(b); d > one(a)+one(b)+1e-6 {
					t.Fatalf("%s is %v ahead of %s", a.Lane.name, d, b.Lane.name)
				}
			}
		}
	})
}

// BenchmarkShare serves one of 100,000 flows that all have work.
func BenchmarkShare(b *testing.B) {
	const flows = 100_000
	var s Share[*tenant]
	used := inUse()
	for range flows {
		s.Add(&Flow[*tenant]{})
	}
	used = inUse() - used
	for b.Loop() {
		s.Next()
		s.Serve(1, 1, true)
	}
	b.ReportMetric(float64(used)/flows, "bytes/flow")
}

// BenchmarkShareNewcomers adds and serves flows that have one job each, among 100,000 others.
func BenchmarkShareNewcomers(b *testing.B) {
	const flows = 100_000
	var s Share[*tenant]
	all := make([]Flow[*tenant], 2*flows)
	for i := range flows {
		s.Add(&all[i])
	}
	for i := 0; b.Loop(); i++ {
		s.Add(&all[flows+i%flows])
		s.Next()
		s.Serve(1, 1, false)
		s.Forget()
		s.Forget()
	}
}

// inUse is how much memory is in use.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
