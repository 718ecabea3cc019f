package pace

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// two are a target with two busy tenants.
func two(s Settings) (*sim, *party, *party) {
	w := newSim(s)
	a, b := w.party("a"), w.party("b")
	w.add(a, 1e9)
	w.add(b, 1e9)
	return w, a, b
}

func TestATargetWithoutWork(t *testing.T) {
	target := NewTarget[int](Settings{RPS: 1, MaxConcurrent: 1})
	if f, w := target.Next(start); f != nil || w != (Wait{}) {
		t.Errorf("got %v, %+v", f, w)
	}
	if !target.Resting() || target.Forget(start) != nil || target.Len() != 0 {
		t.Error("it does not rest")
	}
}

func TestPC13_OnlyTheTenantThatIsRefusedCoolsDown(t *testing.T) {
	w, a, b := two(Settings{RPS: 10, MaxConcurrent: 10})
	a.reply = refused("5")
	b.reply.took = 50 * time.Millisecond
	w.run(5 * time.Second)
	if a.sent != 1 || b.sent < 48 {
		t.Errorf("a sent %d jobs, b %d", a.sent, b.sent)
	}
	if until := a.flow.CoolsUntil(); !until.Equal(at(5 * time.Second)) {
		t.Errorf("a cools until %v", until)
	}
	a.reply = reply{status: 200}
	w.run(time.Second)
	if a.sent == 1 {
		t.Error("a is not served when it may be")
	}
}

// refused is a 429 that names how many seconds to wait.
func refused(after string) reply {
	return reply{status: 429, header: headers("Retry-After", after)}
}

func TestAHeaderSpeaksForTheWholeTarget(t *testing.T) {
	w, a, b := two(Settings{RPS: 10, MaxConcurrent: 10})
	a.reply = reply{status: 429, header: headers("X-Aqueduct-Rps", "2")}
	w.run(10 * time.Second)
	if all := a.sent + b.sent; all > 22 || a.flow.OwnRate() != 0 {
		t.Errorf("%d jobs in 10 s at 2 rps; a's own rate is %v", all, a.flow.OwnRate())
	}
}

func TestPC03_AfterACoolDownOneAtATime(t *testing.T) {
	w := newSim(Settings{RPS: 1e9, MaxConcurrent: 1})
	a := w.party("a")
	w.add(a, 3)
	a.reply = refused("1")
	w.run(time.Millisecond)
	a.reply = reply{took: 10 * time.Millisecond, status: 200}
	w.run(999*time.Millisecond - 1)
	if a.sent != 1 {
		t.Fatalf("%d jobs were sent before a second had passed", a.sent)
	}
	w.run(time.Minute)
	if a.sent != 4 || w.busiest != 1 {
		t.Errorf("%d jobs were sent, up to %d at a time", a.sent, w.busiest)
	}
}

func TestATenantThatFailsSlowsDownAlone(t *testing.T) {
	w, a, b := two(Settings{RPS: 16, MaxConcurrent: 1})
	a.reply.status = 503
	for i, want := range []float64{8, 4, 2, 1, 0.5, 0.25, 0.25} {
		for n := a.failed; a.failed == n; {
			w.run(10 * time.Millisecond)
		}
		if got := a.flow.OwnRate(); got != want {
			t.Fatalf("own rate after failure %d is %v, want %v", i+1, got, want)
		}
	}
	before, was := b.sent, a.sent
	w.run(100 * time.Second)
	if n := a.sent - was; n < 24 || n > 26 {
		t.Errorf("a sent %d jobs in 100 s at 0.25 rps", n)
	}
	if n := b.sent - before; n < 1573 || n > 1577 {
		t.Errorf("b sent %d jobs of some 1575", n)
	}
	if b.flow.OwnRate() != 0 {
		t.Errorf("b's own rate is %v", b.flow.OwnRate())
	}
}

func TestSuccessEndsASlowDown(t *testing.T) {
	w, a, _ := two(Settings{RPS: 16, MaxConcurrent: 1})
	a.reply.status = 503
	w.run(2 * time.Minute)
	a.reply.status = 200
	w.run(5 * time.Second)
	if got := a.flow.OwnRate(); !near(got, 0.25*climb) && !near(got, 0.25*climb*climb) {
		t.Errorf("own rate after a success or two is %v", got)
	}
	w.run(3 * time.Minute)
	if a.flow.OwnRate() != 0 {
		t.Errorf("own rate is still %v", a.flow.OwnRate())
	}
	before := a.sent
	w.run(10 * time.Second)
	if n := a.sent - before; n < 79 || n > 81 {
		t.Errorf("a sent %d of 160 jobs", n)
	}
}

func TestClearedSlowDownsAreForgottenAtOnce(t *testing.T) {
	w, a, b := two(Settings{RPS: 16, MaxConcurrent: 1})
	a.reply = refused("3600")
	b.reply.status = 503
	w.run(time.Minute)
	a.reply, b.reply = reply{status: 200}, reply{status: 200}
	w.target.ClearSlowDowns()
	before, was := a.sent, b.sent
	w.run(10 * time.Second)
	if n, m := a.sent-before, b.sent-was; n < 79 || m < 79 {
		t.Errorf("a sent %d jobs, b %d", n, m)
	}
}

func TestASlowDownOutlivesTheWork(t *testing.T) {
	w := newSim(Settings{RPS: 10, MaxConcurrent: 1, Idle: time.Minute})
	a := w.party("a")
	w.add(a, 1)
	a.reply = refused("30")
	w.run(time.Millisecond)
	a.jobs = 0 // withdrawn
	w.run(31 * time.Second)
	if !w.target.Holds(&a.flow) || w.target.Resting() || a.flow.OwnRate() != 5 {
		t.Fatalf("held %v, own rate %v", w.target.Holds(&a.flow), a.flow.OwnRate())
	}
	if _, wait := w.target.Next(w.at()); wait.For <= 0 || wait.For > time.Minute || wait.Reason != NoWait {
		t.Errorf("the owner is told to come again in %v for %v", wait.For, wait.Reason)
	}
	w.run(time.Minute)
	if w.target.Holds(&a.flow) || !w.target.Resting() || a.flow.OwnRate() != 0 {
		t.Errorf("after an idle minute: held %v, own rate %v", w.target.Holds(&a.flow), a.flow.OwnRate())
	}
}

// A tenant with one job that fails again and again is slowed down between its retries too, however short a rest may be.
func TestASlowDownOutlivesItsOwnInterval(t *testing.T) {
	w := newSim(Settings{RPS: 1, MaxConcurrent: 1, Idle: time.Second})
	a := w.party("a")
	a.reply = refused("")
	for range 3 {
		w.add(a, 1)
		w.run(time.Millisecond)
		a.jobs = 0 // it comes back later
		w.run(3 * time.Second)
	}
	if len(a.starts) != 2 || a.flow.OwnRate() != MinRPS {
		t.Errorf("%d calls in 9 s, own rate %v", len(a.starts), a.flow.OwnRate())
	}
}

func TestAFlowWithAnOpenDispatchIsNotForgotten(t *testing.T) {
	target, f := NewTarget[int](Settings{RPS: 1e9, MaxConcurrent: 2}), &Flow[int]{}
	target.Add(f)
	target.Next(start)
	slot := target.Start(1, false, start)
	if target.Forget(start) != nil || !target.Holds(f) || target.Resting() {
		t.Fatal("it is forgotten while its dispatch is open")
	}
	target.Done(slot, answer(), at(time.Hour))
	if target.Forget(at(time.Hour)) != f || target.Forget(at(time.Hour)) != nil || target.Holds(f) || !target.Resting() {
		t.Error("it is not forgotten once when its dispatch has ended")
	}
}

func TestWeightsOfFlows(t *testing.T) {
	w, a, b := two(Settings{RPS: 100, MaxConcurrent: 1})
	a.flow.Weight = 3
	w.run(10 * time.Second)
	if a.sent < 749 || a.sent > 753 {
		t.Errorf("a sent %d jobs, b %d", a.sent, b.sent)
	}
}

func TestSlowCallsGetAsManyDispatches(t *testing.T) {
	for _, s := range []Settings{
		{RPS: 50, MaxConcurrent: 200},                  // the rate is what is short
		{RPS: 50, MaxConcurrent: 200, Fairness: ByUse}, // so it is what is shared
		{RPS: 1e9, MaxConcurrent: 4},                   // slots are short, and dispatches are shared all the same
	} {
		w, a, b := two(s)
		a.reply.took, b.reply.took = time.Second, 10*time.Millisecond
		w.run(2 * time.Minute)
		if share := float64(b.sent) / float64(a.sent+b.sent); share < 0.49 || share > 0.51 {
			t.Errorf("%+v: b's share is %v", s, share)
		}
	}
}

func TestFA02_EqualBusyTimeIfUseIsShared(t *testing.T) {
	for _, rps := range []float64{100, 1000, 1e9} {
		w, a, b := two(Settings{RPS: rps, MaxConcurrent: 4, Fairness: ByUse})
		a.reply.took, b.reply.took = 10*time.Second, 100*time.Millisecond
		w.run(2 * time.Minute)
		for _, c := range w.open {
			c.by.busy += c.reply.took - (c.ends - w.now)
		}
		if share := float64(a.busy) / float64(a.busy+b.busy); share < 0.45 || share > 0.55 {
			t.Errorf("%v rps: a's share of busy time is %v", rps, share)
		}
	}
}

// The rate holds exactly, however many share it, and each gets its part.
func TestATargetIsExactForAnyNumberOfTenants(t *testing.T) {
	for _, c := range []struct {
		rps     float64
		tenants int
	}{{50, 1}, {50, 10}, {50, 1000}, {5000, 10}} {
		const span = 40 * time.Second
		w := newSim(Settings{RPS: c.rps, MaxConcurrent: 1000})
		for i := range c.tenants {
			p := w.party(string(rune('A' + i)))
			p.reply.took = 20 * time.Millisecond
			w.add(p, 1e9)
		}
		w.run(span)
		starts := w.starts()
		want := c.rps * span.Seconds()
		if n := float64(len(starts)); n < want-1 || n > want+1+c.rps*Slack.Seconds() {
			t.Errorf("%v rps, %d tenants: %v dispatches in %v", c.rps, c.tenants, n, span)
		}
		if n := float64(most(starts, time.Second)); n > c.rps*(time.Second+Slack).Seconds()+1 {
			t.Errorf("%v rps, %d tenants: %v dispatches in one second", c.rps, c.tenants, n)
		}
		for _, p := range w.parties {
			if fair := want / float64(c.tenants); float64(p.sent) < fair-1 || float64(p.sent) > fair+6 {
				t.Errorf("%v rps: one of %d tenants sent %d jobs", c.rps, c.tenants, p.sent)
			}
		}
	}
}

// Whatever is answered: nothing starts that the target's limits or the flow's own do not allow, virtual
// time does not go back, every job is sent in the end, and then nothing is remembered.
func TestATargetKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSim(Settings{
			RPS: rapid.Float64Range(1, 1000).Draw(t, "rps"), MaxConcurrent: rapid.IntRange(1, 8).Draw(t, "slots"),
			Fairness: rapid.SampledFrom([]Fairness{ByDispatch, ByUse}).Draw(t, "fairness"), Idle: time.Second,
		})
		queued := 0
		for _, name := range []string{"a", "b", "c", "d"} {
			w.party(name).flow.Weight = rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "weight")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := rapid.SampledFrom(w.parties).Draw(t, "tenant")
			p.reply = reply{
				took:   time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "took")),
				status: rapid.SampledFrom([]int{200, 200, 404, 429, 503}).Draw(t, "status"),
				header: headers("Retry-After", rapid.SampledFrom([]string{"", "0", "1", "3"}).Draw(t, "after")),
			}
			if n := rapid.IntRange(0, 5).Draw(t, "jobs"); n > 0 {
				queued += n
				w.add(p, n)
			}
			if rapid.IntRange(0, 20).Draw(t, "clear") == 0 {
				w.target.ClearSlowDowns()
			}
			virtual := w.target.share.Now()
			w.run(time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "ns")))
			w.check(t, virtual)
		}
		for _, p := range w.parties {
			p.reply = reply{status: 200}
		}
		w.run(time.Hour)
		done := 0
		for _, p := range w.parties {
			done += p.sent - p.failed
		}
		if done != queued || !w.target.Resting() || w.target.budget.open != 0 {
			t.Fatalf("%d of %d jobs done, resting %v, %d open", done, queued, w.target.Resting(), w.target.budget.open)
		}
	})
}

func (s *sim) check(t *rapid.T, virtual float64) {
	set := s.target.budget.set
	if now := s.target.share.Now(); now < virtual {
		t.Fatalf("virtual time went from %v to %v", virtual, now)
	}
	if s.busiest > set.MaxConcurrent || len(s.open) != s.target.budget.InFlight() {
		t.Fatalf("%d were open at one time, %d are, %d are known", s.busiest, len(s.open), s.target.budget.InFlight())
	}
	for i, f := range s.target.naps {
		if f.nap != i+1 || f.waiting {
			t.Fatalf("the nap at %d believes to be at %d, waiting %v", i+1, f.nap, f.waiting)
		}
	}
	if all := s.starts(); len(all) > 0 {
		span := all[len(all)-1].Sub(all[0])
		if n := float64(len(all)); n > set.RPS*(span+Slack).Seconds()+1+n*rounding {
			t.Fatalf("%v dispatches in %v at %v rps", n, span, set.RPS)
		}
	}
	if s.early > 0 {
		t.Fatalf("%d dispatches of tenants that were cooling down", s.early)
	}
}

// BenchmarkTargetNext is what a dispatch costs from Next to Done among 100,000 tenants that all have work.
func BenchmarkTargetNext(b *testing.B) {
	benchmarkTarget(b, answer())
}

// BenchmarkTargetNextOfSlow is the same while all calls fail, so that nearly all tenants keep back.
func BenchmarkTargetNextOfSlow(b *testing.B) {
	benchmarkTarget(b, refusal(503))
}

func benchmarkTarget(b *testing.B, says Signal) {
	const flows = 100_000
	target := NewTarget[*party](Settings{RPS: 1e9, MaxConcurrent: 10})
	used := inUse()
	for range flows {
		target.Add(&Flow[*party]{})
	}
	used = inUse() - used
	now := start
	for b.Loop() {
		f, w := target.Next(now)
		for f == nil {
			now = now.Add(w.For)
			f, w = target.Next(now)
		}
		slot := target.Start(1, true, now)
		now = now.Add(time.Microsecond)
		target.Done(slot, says, now)
	}
	b.ReportMetric(float64(used)/flows, "bytes/flow")
}
