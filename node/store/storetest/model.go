package storetest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// testModel does random things to the store and to a Disk, which is the model, and compares what they say.
func testModel(t *testing.T, opener Opener) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			m := &machine{real: newHarness(t, rt, opener), model: newHarness(t, rt, OpenDisk)}
			defer m.real.close()
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				m.step(rt)
			}
			m.compare()
			m.real.checkPlaces()
		})
	})
}

// bubbled keeps rapid from asking for the test's deadline, which a bubble does not allow.
type bubbled struct{ testing.TB }

// OpenDisk is the Opener of the store in memory.
func OpenDisk(t *testing.T) func() (store.Store, error) { return NewDisk(t).Open }

// machine drives two stores with the same calls. Orders differ between stores, so each has its own
// entries; everything else must be the same.
type machine struct {
	real, model *harness
	jobs        []*twin
}

// twin is one job in both stores.
type twin struct {
	*job.Job
	real, model side
}

// side is what one store has said about a job: the latest places, also when they are stale by now.
type side struct {
	call, delivery       job.Entry
	callDue, deliveryDue store.Due
	handed               store.Handed // the copy that was offered last
}

func (m *machine) step(rt *rapid.T) {
	actions := []string{"insert", "begin", "begin", "retry", "requeue", "finish", "finish", "record", "postpone",
		"requeue delivery", "settle", "settle", "owe", "offer", "keep", "forget", "adopt", "expire", "sleep", "reopen"}
	action := rapid.SampledFrom(actions).Draw(rt, "action")
	switch action {
	case "insert":
		m.insert(rt)
		return
	case "expire":
		m.same(action, func(h *harness, _ *side, _ *twin) error {
			n, err := h.s.Expire(h.ctx, time.Now(), 1000)
			return errors.Join(err, fmt.Errorf("expired %d", n))
		}, nil)
		return
	case "sleep":
		time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, keep / 2, keep}).Draw(rt, "sleep"))
		return
	case "reopen":
		m.real.reopen()
		m.model.reopen()
		return
	}
	if len(m.jobs) > 0 {
		tw := m.jobs[rapid.IntRange(0, len(m.jobs)-1).Draw(rt, "job")]
		m.same(action, m.action(action, rapid.IntRange(0, 9).Draw(rt, "spoil") == 0), tw)
		m.compareOne(tw.ID)
	}
}

func (m *machine) insert(rt *rapid.T) {
	j := m.real.job(key(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key")))
	tw := &twin{Job: j}
	m.jobs = append(m.jobs, tw)
	m.real.ids = append(m.real.ids, j.ID)
	m.same("insert", func(h *harness, s *side, tw *twin) error {
		got, err := h.s.Insert(h.ctx, tw.Job, store.Default)
		s.call = got.Entry
		if got.Holder != nil {
			return errors.Join(err, fmt.Errorf("held by %v", *got.Holder))
		}
		return err
	}, tw)
	m.compareOne(j.ID)
}

// action returns one transition. It is computed from what the store itself says, and spoilt if asked.
func (m *machine) action(name string, spoil bool) func(*harness, *side, *twin) error {
	now := time.Now() // for both sides, one of which may need time
	return func(h *harness, s *side, tw *twin) error {
		snapshot, err := h.s.Get(h.ctx, tw.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		st := snapshot.State
		if spoil {
			st.Tried++
		}
		w := &work{Job: tw.Job, entry: s.call, state: st}
		soon := now.Add(time.Minute).UnixMilli()
		switch name {
		case "begin":
			st.Tried++
			return h.s.Begin(h.ctx, s.call, st, now)
		case "retry":
			next, _ := st.Retry(w.attempt(), soon)
			s.callDue = store.Due{At: soon, Kind: store.DueCall, ID: tw.ID, Lane: tw.Lane()}
			return h.s.Retry(h.ctx, s.call, next)
		case "requeue":
			return s.requeue(h, s.callDue, &s.call)
		case "finish":
			e, err := h.s.Finish(h.ctx, w.endingAt(now))
			if err == nil {
				s.delivery = e
			}
			return err
		case "record":
			return h.s.Record(h.ctx, tw.ID, st.Late(job.Attempt{Number: 1000 + len(st.Attempts)}))
		case "postpone":
			s.deliveryDue = store.Due{At: soon, Kind: store.DueDelivery, ID: tw.ID, Lane: tw.WebhookLane()}
			return h.s.Postpone(h.ctx, s.delivery, postponed(time.UnixMilli(soon)))
		case "requeue delivery":
			return s.requeue(h, s.deliveryDue, &s.delivery)
		case "settle":
			return h.s.Settle(h.ctx, tw.ID, delivered())
		case "offer", "keep", "forget", "adopt":
			return s.handOver(h, name, tw.ID)
		default:
			e, err := h.s.Owe(h.ctx, tw.ID)
			if err == nil {
				s.delivery = e
			}
			return err
		}
	}
}

// copies is the copy that was offered last, if any was.
func (s *side) copies() []store.Handed {
	if s.handed.Job == nil {
		return nil
	}
	return []store.Handed{s.handed}
}

// handOver does one step of handing a job over, to another store or back.
func (s *side) handOver(h *harness, step string, id job.ID) error {
	switch step {
	case "keep":
		_, err := h.s.Keep(h.ctx, "peer", s.copies())
		return err
	case "forget":
		return h.s.Forget(h.ctx, "peer", s.copies())
	case "adopt":
		if s.handed.Job == nil {
			return nil
		}
		s.handed = next(s.handed)
		got, err := h.s.Adopt(h.ctx, []store.Handed{s.handed})
		if err == nil && s.handed.Line() == job.Calls && got[0].Verdict == store.Adopted {
			s.call = got[0].Entry
		} else if err == nil && got[0].Verdict == store.Adopted {
			s.delivery = got[0].Entry
		}
		return errors.Join(err, fmt.Errorf("verdict %v", got[0].Verdict))
	default:
		snapshot, err := h.s.Get(h.ctx, id)
		if err != nil {
			return err
		}
		taken, err := h.s.Offer(h.ctx, "peer", []store.Handed{store.NewHanded(snapshot, nil)})
		if len(taken) > 0 {
			s.handed = taken[0]
		}
		return errors.Join(err, fmt.Errorf("%d taken", len(taken)))
	}
}

func (s *side) requeue(h *harness, d store.Due, place *job.Entry) error {
	if d.Kind == 0 {
		return nil
	}
	e, err := h.s.Requeue(h.ctx, d)
	if err == nil {
		*place = e
	}
	return err
}

// same does one thing to both stores and compares what comes of it.
func (m *machine) same(name string, do func(*harness, *side, *twin) error, tw *twin) {
	var stored, model side
	if tw != nil {
		stored, model = tw.real, tw.model
	}
	got, want := do(m.real, &stored, tw), do(m.model, &model, tw)
	if tw != nil {
		tw.real, tw.model = stored, model
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.real.t.Fatalf("%s: the store says %v, the model %v", name, got, want)
	}
}

// compareOne compares all about one job, but for orders.
func (m *machine) compareOne(id job.ID) {
	got, gotErr := m.real.s.Get(m.real.ctx, id)
	want, wantErr := m.model.s.Get(m.model.ctx, id)
	for _, s := range []*job.Snapshot{&got, &want} {
		s.State.Order, s.Webhook.Order = min(s.State.Order, 1), min(s.Webhook.Order, 1)
	}
	if show(got) != show(want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		m.real.t.Fatalf("the store has  %s, %v\nthe model has %s, %v", show(got), gotErr, show(want), wantErr)
	}
}

// compare compares what waits and what is due.
func (m *machine) compare() {
	for _, tw := range m.jobs {
		m.compareOne(tw.ID)
	}
	for _, line := range []job.Line{job.Calls, job.Deliveries} {
		var got, want []job.ID
		for e, err := range m.real.s.Waiting(m.real.ctx, line) {
			m.real.ok(err)
			got = append(got, e.ID)
		}
		for e, err := range m.model.s.Waiting(m.model.ctx, line) {
			m.model.ok(err)
			want = append(want, e.ID)
		}
		m.real.equal(got, want)
	}
	later := time.Now().Add(1000 * time.Hour)
	got, gotNext := m.real.due(later, 1000)
	want, wantNext := m.model.due(later, 1000)
	m.real.equal(got, want)
	m.real.equal(gotNext, wantNext)
}
