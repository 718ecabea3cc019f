package pace

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// estimate estimates the start of a job that has so many of its own tenant before it.
func (s *sim) estimate(p *party, ahead int) Wait {
	others := 0
	for _, o := range s.parties {
		if o != p {
			others += o.jobs
		}
	}
	return s.target.ETA(&p.flow, ahead, others, s.at())
}

// expect checks an estimate: the reason, and the time within a tenth and 100 ms.
func (s *sim) expect(t *testing.T, what string, p *party, ahead int, want Wait) {
	t.Helper()
	got := s.estimate(p, ahead)
	if off := (got.For - want.For).Abs(); got.Reason != want.Reason || off > want.For/10+100*time.Millisecond {
		t.Errorf("%s: in %v for %v, want %v for %v", what, got.For, got.Reason, want.For, want.Reason)
	}
}

func TestETAAtARate(t *testing.T) {
	w := newSim(Settings{RPS: 2, MaxConcurrent: 100})
	a := w.party("a")
	a.reply.took = time.Second
	w.add(a, 1000)
	w.expect(t, "at once", a, 0, Wait{})
	w.run(9980 * time.Millisecond) // up to Slack before the next one
	w.expect(t, "the next", a, 0, Wait{10 * time.Millisecond, WaitRate})
	w.expect(t, "the 21st", a, 20, Wait{10 * time.Second, WaitRate})
}

func TestETAWithFewSlots(t *testing.T) {
	w := newSim(Settings{RPS: 1000, MaxConcurrent: 4})
	a := w.party("a")
	a.reply.took = 2 * time.Second
	w.add(a, 1000)
	w.run(time.Second)
	w.expect(t, "at a target that never answered", a, 8, Wait{8 * time.Millisecond, WaitConcurrency})
	w.run(10*time.Second + time.Millisecond)
	w.expect(t, "the 21st", a, 20, Wait{10500 * time.Millisecond, WaitConcurrency})
}

func TestETAAmongOthers(t *testing.T) {
	w := newSim(Settings{RPS: 10, MaxConcurrent: 100})
	for _, name := range []string{"a", "b", "c", "d"} {
		w.add(w.party(name), 1000)
	}
	w.run(10 * time.Second)
	last := w.party("e")
	w.add(last, 100)
	w.expect(t, "the first of a new tenant", last, 0, Wait{400 * time.Millisecond, WaitFairShare})
	w.expect(t, "its 21st", last, 20, Wait{10400 * time.Millisecond, WaitFairShare})
}

func TestETABesideLittleForeignWork(t *testing.T) {
	w := newSim(Settings{RPS: 10, MaxConcurrent: 100})
	a, b := w.party("a"), w.party("b")
	w.add(a, 1000)
	w.run(time.Second)
	w.add(b, 3)
	w.expect(t, "the 101st", a, 100, Wait{10300 * time.Millisecond, WaitRate})
}

func TestETAOfATenantThatKeepsBack(t *testing.T) {
	w, a, b := two(Settings{RPS: 10, MaxConcurrent: 10})
	a.reply = refused("60")
	b.reply.status = 503
	w.run(30 * time.Second)
	w.expect(t, "told to wait", a, 0, Wait{30 * time.Second, WaitRetryAfter})
	w.expect(t, "failing", b, 10, Wait{42 * time.Second, WaitRate})
}

func TestETAIsUsableForAnyArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSim(Settings{RPS: rapid.Float64().Draw(t, "rps"), MaxConcurrent: rapid.Int().Draw(t, "slots")})
		p := w.party("a")
		p.reply = refused(rapid.SampledFrom([]string{"", "9", "99999999999999999999"}).Draw(t, "after"))
		w.add(p, rapid.IntRange(0, 3).Draw(t, "jobs"))
		w.run(time.Millisecond)
		number := rapid.SampledFrom([]int{0, 1, 1000, math.MaxInt, math.MinInt})
		wait := w.target.ETA(&p.flow, number.Draw(t, "ahead"), number.Draw(t, "others"), w.at())
		if wait.For < 0 || wait.For > 0 && wait.Reason == NoWait {
			t.Fatalf("in %v for %v", wait.For, wait.Reason)
		}
	})
}

// While nothing changes, a job starts when it was estimated to, give or take a turn of each tenant.
func TestETAIsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rps := rapid.Float64Range(1, 100).Draw(t, "rps")
		w := newSim(Settings{RPS: rps, MaxConcurrent: rapid.IntRange(1, 10).Draw(t, "slots")})
		took := time.Duration(rapid.Int64Range(1e6, 500e6).Draw(t, "took"))
		tenants := rapid.IntRange(1, 5).Draw(t, "tenants")
		for i := range tenants {
			p := w.party(string(rune('a' + i)))
			p.reply.took = took
			w.add(p, 1e6)
		}
		w.run(20 * time.Second)
		p := rapid.SampledFrom(w.parties).Draw(t, "tenant")
		ahead := rapid.IntRange(0, 50).Draw(t, "ahead")
		estimate, nth, from := w.estimate(p, ahead), len(p.starts)+ahead, w.now
		for len(p.starts) <= nth {
			w.run(time.Second)
		}
		really := p.starts[nth] - from
		turn := time.Duration(float64(tenants+2)*1e9/rps) + time.Duration(tenants+2)*took
		if off := (estimate.For - really).Abs(); off > turn+really/20 {
			t.Fatalf("estimated %v for %v, it was %v", estimate.For, estimate.Reason, really)
		}
	})
}

func TestReasonsHaveNames(t *testing.T) {
	want := map[Reason]string{
		NoWait: "", WaitRate: "rate", WaitConcurrency: "concurrency", WaitFairShare: "fair_share", WaitRetryAfter: "retry_after",
		WaitBackoff: "backoff", WaitNotReady: "not_ready", WaitNotReady + 1: "unknown",
	}
	for r, name := range want {
		if r.String() != name {
			t.Errorf("%d is called %q, want %q", r, r, name)
		}
	}
}

// BenchmarkETA estimates among 100,000 tenants.
func BenchmarkETA(b *testing.B) {
	target := NewTarget[int](Settings{RPS: 1e9, MaxConcurrent: 10})
	flows := make([]Flow[int], 100_000)
	for i := range flows {
		target.Add(&flows[i])
	}
	for b.Loop() {
		target.ETA(&flows[50_000], 3, 1e6, start)
	}
}
