package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// cohort is one job in each place of its life.
type cohort struct {
	waiting, open, retrying, owed, postponed, settled job.ID
}

func (c cohort) all() []job.ID {
	return []job.ID{c.waiting, c.open, c.retrying, c.owed, c.postponed, c.settled}
}

// newCohort puts six jobs into the store. n tells cohorts apart.
func newCohort(t *testing.T, s *Store, n byte) (c cohort) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []*job.ID{&c.waiting, &c.open, &c.retrying, &c.owed, &c.postponed, &c.settled} {
		*id = job.ID{n, byte(i + 1)}
		j := &job.Job{ID: *id, Deadline: time.Now().Add(time.Minute).UnixMilli(), Request: job.Request{
			UserID: "u", KeyName: id.String(), URL: fmt.Sprintf("http://t%d.test", n), WebhookURL: fmt.Sprintf("http://r%d.test", n),
		}}
		in, err := s.Insert(ctx, j, store.Default)
		must(err)
		if *id == c.waiting {
			continue
		}
		must(s.Begin(ctx, in.Entry, job.State{Tried: 1}, time.Now()))
		switch *id {
		case c.open:
			continue
		case c.retrying:
			must(s.Retry(ctx, in.Entry, job.State{Tried: 1, DueAt: time.Now().Add(time.Second).UnixMilli()}))
			continue
		}
		place, err := s.Finish(ctx, store.Finish{Job: j, Payload: []byte("answer"), Next: job.State{
			Status: job.Completed, Tried: 1, ExpiresAt: time.Now().Add(time.Minute).UnixMilli(),
		}})
		must(err)
		switch *id {
		case c.postponed:
			must(s.Postpone(ctx, place, job.Webhook{State: job.WebhookPending, DueAt: time.Now().Add(time.Second).UnixMilli()}))
		case c.settled:
			must(s.Settle(ctx, *id, job.Webhook{State: job.WebhookDelivered}))
		}
	}
	return c
}

// spoil makes what stands behind some keys unreadable, and adds a key that nobody has written.
func spoil(t *testing.T, s *Store, kind byte, mine func(id job.ID) bool) (keys int) {
	t.Helper()
	it, err := s.iterate([]byte{kind})
	if err != nil {
		t.Fatal(err)
	}
	batch := s.db.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		id := job.ID{}
		switch kind {
		case kindKey, kindLane:
			if len(it.Value()) >= idLen {
				id = job.ID(it.Value()[:idLen])
			}
		default:
			_, id = describe(it.Key())
		}
		if mine(id) {
			keys++
			if err := batch.Set(it.Key(), []byte("garbage"), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	stray := []byte{kind, 0} // before all others
	if err := errors.Join(it.Close(), batch.Set(stray, []byte{0xff}, nil), batch.Commit(pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestUnreadable spoils, kind by kind, all records of one cohort: the store opens, and everything that
// passes over many jobs goes on for the other one and loses nothing.
func TestUnreadable(t *testing.T) {
	for _, kind := range []byte("adhjklmpstuwx") {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				o := Options{Dir: "data", FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
				s, err := Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				bad, good := newCohort(t, s, 1), newCohort(t, s, 2)
				keys := spoil(t, s, kind, func(id job.ID) bool { return id[0] == 1 })
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = Open(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				synctest.Wait() // until the keys are read
				before := countKeys(t, s)
				goesOn(t, s, good)
				if kind == kindJob || kind == kindState {
					_, err := s.Get(t.Context(), bad.settled)
					if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), bad.settled.String()) {
						t.Errorf("get of an unreadable job: %v", err)
					}
				}
				if n := s.unreadable.count.Load(); kind != kindMeta && kind != kindUser && kind != kindPayload && (n == 0 || n > int64(keys)+1) {
					t.Errorf("%d unreadable records counted, %d are", n, keys+1)
				}
				time.Sleep(2 * time.Minute) // now all deadlines and times to keep are over
				for range 3 {
					if n, err := s.Expire(t.Context(), time.Now(), 1); err != nil || n > 1 {
						t.Fatalf("%d have expired, %v", n, err)
					}
				}
				if _, err := s.Get(t.Context(), good.settled); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("the readable job has not expired: %v", err)
				}
				if after := countKeys(t, s); after < before-2*5 {
					t.Errorf("%d keys are left of %d", after, before)
				}
			})
		})
	}
}

func countKeys(t *testing.T, s *Store) (n int) {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// goesOn checks that a cohort is found in all its places.
func goesOn(t *testing.T, s *Store, c cohort) {
	t.Helper()
	ctx := t.Context()
	found := map[string]map[job.ID]bool{}
	add := func(where string, id job.ID, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if found[where] == nil {
			found[where] = map[job.ID]bool{}
		}
		found[where][id] = true
	}
	open, err := s.Interrupted(ctx)
	for _, i := range open {
		add("interrupted", i.Entry.ID, err)
	}
	for e, err := range s.Waiting(ctx, job.Calls) {
		add("calls", e.ID, err)
	}
	for e, err := range s.Waiting(ctx, job.Deliveries) {
		add("deliveries", e.ID, err)
	}
	for d, err := range s.Pending(ctx) {
		add("pending", d.ID, err)
	}
	for range 2 { // the second time some are known
		due, _, err := s.Due(ctx, time.Now().Add(time.Hour), 100)
		for _, d := range due {
			add("due", d.ID, err)
			if d.Kind != store.DueDeadline && d.ID[0] == 1 {
				if _, err := s.Requeue(ctx, d); err != nil && !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("requeue: %v", err)
				}
			}
		}
	}
	q := store.Query{Limit: 2}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Jobs {
			add("list", x.Job.ID, nil)
		}
		if q.Before = page.Next; q.Before.IsZero() {
			break
		}
	}
	for where, ids := range map[string][]job.ID{
		"interrupted": {c.open}, "calls": {c.waiting, c.open}, "deliveries": {c.owed}, "pending": {c.retrying, c.postponed},
		"due": {c.waiting, c.retrying, c.postponed}, "list": c.all(),
	} {
		for _, id := range ids {
			if !found[where][id] {
				t.Errorf("job %s is not found among %s", id, where)
			}
		}
	}
}

// TestUnreadableIsToldOnce reads the same record again and again.
func TestUnreadableIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		one, other := job.ID{1}, job.ID{2}
		u := newUnreadable(slog.New(slog.NewTextHandler(&log, nil)))
		for range 10 {
			err := u.note(appendID(nil, kindState, one), errMalformed)
			want := "store: unreadable record: state of job " + one.String() + ": malformed"
			if err.Error() != want {
				t.Fatalf("%q, want %q", err, want)
			}
			time.Sleep(time.Minute)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || u.count.Load() != 1 || !u.stops(one) || u.stops(other) {
			t.Errorf("counted %d:\n%s", u.count.Load(), &log)
		}
	})
}

// An order that cannot be read is left out and kept, and the others hold.
func TestUnreadableOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Dir: "data", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)}
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		for _, host := range []string{"bad.test", "good.test"} {
			if err := s.Override(t.Context(), host, store.Override{Paused: true, SetAt: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.db.Set(overrideKey("bad.test"), []byte("garbage"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		before := countKeys(t, s)
		for range 2 {
			all, err := s.Overrides(t.Context(), time.Now())
			if err != nil || len(all) != 1 || !all["good.test"].Paused {
				t.Errorf("orders %v, %v", all, err)
			}
		}
		if n := s.unreadable.count.Load(); n != 1 || countKeys(t, s) != before {
			t.Errorf("%d unreadable records counted, %d keys of %d left", n, countKeys(t, s), before)
		}
	})
}
