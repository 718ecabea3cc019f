package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// stage is how far a job has come.
type stage int

const (
	inserted stage = iota + 1
	begun
	finished
	settled
)

// ledger records what the store has acknowledged, and when.
type ledger struct {
	mu   sync.Mutex
	all  []job.ID // also of jobs that may or may not be there
	acks map[job.ID]map[stage]time.Time
}

func (l *ledger) ack(id job.ID, s stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acks[id] == nil {
		l.acks[id] = map[stage]time.Time{}
	}
	l.acks[id][s] = time.Now()
}

// crash is a file system as a crash has left it, and what must be on it.
type crash struct {
	fs   *vfs.MemFS
	acks map[job.ID]stage
}

// take lets the machine (or with percent 100 only the process) die now. What was acknowledged before the times must be
// there: new jobs, and what was done with them.
func (l *ledger) take(fs *vfs.MemFS, percent int, told, done time.Time) crash {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := crash{acks: map[job.ID]stage{}}
	for id, stages := range l.acks {
		for s, at := range stages {
			before := done
			if s == inserted {
				before = told
			}
			if at.Before(before) {
				c.acks[id] = max(c.acks[id], s)
			}
		}
	}
	c.fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(len(l.acks))))})
	return c
}

// always is a time after every acknowledgement.
func always() time.Time { return time.Now().Add(time.Hour) }

// load runs jobs through the store until it closes or ctx ends.
func load(ctx context.Context, s *pebblestore.Store, l *ledger) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 12 {
				j := benchJob(int64(1000*worker + n))
				j.Request.Body = make([]byte, 5000) // so that memtables and logs are changed under way
				l.mu.Lock()
				l.all = append(l.all, j.ID)
				l.mu.Unlock()
				if oneLife(ctx, s, l, j) != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

func oneLife(ctx context.Context, s *pebblestore.Store, l *ledger, j *job.Job) error {
	in, err := s.Insert(ctx, j, store.Default)
	if err != nil {
		return err
	}
	l.ack(j.ID, inserted)
	time.Sleep(3 * time.Millisecond)
	st, _ := job.State{Order: in.Entry.Order}.Begin(1)
	if err := s.Begin(ctx, in.Entry, st, time.Now()); err != nil {
		return err
	}
	l.ack(j.ID, begun)
	time.Sleep(5 * time.Millisecond)
	next, _ := st.Finish(job.End{Status: job.Completed, At: time.Now().UnixMilli(), Keep: 1_800_000})
	if _, err := s.Finish(ctx, store.Finish{Job: j, Next: next}); err != nil {
		return err
	}
	l.ack(j.ID, finished)
	time.Sleep(3 * time.Millisecond)
	if err := s.Settle(ctx, j.ID, job.Webhook{State: job.WebhookDelivered}); err != nil {
		return err
	}
	l.ack(j.ID, settled)
	return nil
}

// verify opens what the crash has left and compares it with what was acknowledged.
func (c crash) verify(t *testing.T, o pebblestore.Options, all []job.ID) {
	t.Helper()
	o.FS = c.fs
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer s.Close()
	open := map[job.ID]bool{}
	interrupted, err := s.Interrupted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interrupted {
		open[i.Entry.ID] = true
	}
	for id, want := range c.acks {
		snapshot, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatalf("job acknowledged as %d is lost: %v", want, err)
		}
		got := inserted
		switch {
		case snapshot.Webhook.State.Settled():
			got = settled
		case snapshot.State.Phase().Ended():
			got = finished
		case open[id]:
			got = begun
		}
		if got < want {
			t.Fatalf("job was acknowledged as %d and is %d after the crash", want, got)
		}
	}
	if err := storetest.CheckPlaces(t.Context(), s, all); err != nil {
		t.Fatal(err)
	}
}

// TestPowerCut cuts the power after every n-th sync: in sync mode no acknowledged job is lost, and of
// what was done with it at most what the last 5 ms brought.
func TestPowerCut(t *testing.T) {
	const interval = 5 * time.Millisecond
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, l, mem := modes["sync"], &ledger{acks: map[job.ID]map[stage]time.Time{}}, vfs.NewCrashableMem()
				var mu sync.Mutex
				var crashes []crash
				n := 0
				fs := newFaultFS(mem)
				fs.synced = func(string) {
					mu.Lock()
					defer mu.Unlock()
					if n++; n%2 == 0 && len(crashes) < 25 {
						done := time.Now().Add(-interval)
						if percent == 100 {
							done = always()
						}
						crashes = append(crashes, l.take(mem, percent, always(), done))
					}
				}
				o.Dir, o.FS = "data", fs
				s, err := pebblestore.Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				load(t.Context(), s, l)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				for _, c := range crashes {
					c.verify(t, o, l.all)
				}
				if len(crashes) < 15 {
					t.Fatalf("only %d crashes were tried", len(crashes))
				}
			})
		})
	}
}

// TestFlushMode lets the power fail, which may take what the sync lag shows, and the process die, which
// may take nothing.
func TestFlushMode(t *testing.T) {
	for name, percent := range map[string]int{"power cut": 0, "power cut with half written": 50, "process death": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, l, mem := modes["flush"], &ledger{acks: map[job.ID]map[stage]time.Time{}}, vfs.NewCrashableMem()
				o.FlushInterval = 20 * time.Millisecond
				o.Dir, o.FS = "data", mem
				s, err := pebblestore.Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var crashing sync.WaitGroup
				var crashes []crash
				crashing.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(7 * time.Millisecond)
						lag := s.Usage().SyncLag
						if lag > o.FlushInterval {
							t.Errorf("lag of %v with an interval of %v", lag, o.FlushInterval)
						}
						before := time.Now().Add(-lag)
						if percent == 100 {
							before = always()
						}
						crashes = append(crashes, l.take(mem, percent, before, before))
					}
				})
				load(t.Context(), s, l)
				stop()
				crashing.Wait()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				for _, c := range crashes {
					c.verify(t, o, l.all)
				}
				if len(crashes) < 15 {
					t.Fatalf("only %d crashes were tried", len(crashes))
				}
			})
		})
	}
}

// TestSyncOnDemand asks for more than the mode gives: the job survives a power cut at once.
func TestSyncOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l, mem := modes["flush"], &ledger{acks: map[job.ID]map[stage]time.Time{}}, vfs.NewCrashableMem()
		o.FlushInterval = time.Hour
		o.Dir, o.FS = "data", mem
		s, err := pebblestore.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		plain, durable := benchJob(1), benchJob(2)
		if got, err := s.Insert(t.Context(), plain, store.Default); err != nil || got.Durability != store.Flush {
			t.Fatal(got, err)
		}
		lost := l.take(mem, 0, always(), always())
		if got, err := s.Insert(t.Context(), durable, store.Sync); err != nil || got.Durability != store.Sync {
			t.Fatal(got, err)
		}
		l.ack(plain.ID, inserted)
		l.ack(durable.ID, inserted)
		l.take(mem, 0, always(), always()).verify(t, o, []job.ID{plain.ID, durable.ID})

		// A duplicate that asks for sync promises as much about the first job.
		third := benchJob(3)
		if _, err := s.Insert(t.Context(), third, store.Default); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Insert(t.Context(), third, store.Sync); err != nil || got.Holder == nil || got.Durability != store.Sync {
			t.Fatal(got, err)
		}
		l.ack(third.ID, inserted)
		l.take(mem, 0, always(), always()).verify(t, o, []job.ID{plain.ID, durable.ID, third.ID})

		o.FS = lost.fs
		before, err := pebblestore.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		if _, err := before.Get(t.Context(), plain.ID); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("this test shows nothing: an unsynced job has survived: %v", err)
		}
	})
}

// TestTornTail cuts the log at every few bytes of its end: what is left opens, and is a prefix of what was
// written.
func TestTornTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, mem := modes["sync"], vfs.NewCrashableMem()
		o.Dir, o.FS = "data", mem
		s, err := pebblestore.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		byID := map[job.ID]job.Order{}
		for n := range 20 {
			j := benchJob(int64(n))
			in, err := s.Insert(t.Context(), j, store.Default)
			if err != nil {
				t.Fatal(err)
			}
			byID[j.ID] = in.Entry.Order
		}
		for cut := 1; cut < 3000; cut += 97 {
			torn := mem.CrashClone(vfs.CrashCloneCfg{})
			tear(t, torn, cut, cut%2 == 0)
			checkPrefix(t, o, torn, maps.Clone(byID))
		}
	})
}

// tear cuts bytes off the newest log; with garbage it puts others in their place.
func tear(t *testing.T, fs *vfs.MemFS, cut int, garbage bool) {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for _, n := range names {
		if isLog(n) {
			newest = max(newest, n)
		}
	}
	data, err := fs.UnsafeGetFileDataBuffer("data/" + newest)
	if err != nil {
		t.Fatal(err)
	}
	kept := append([]byte(nil), data[:len(data)-cut]...)
	for range cut {
		if garbage {
			kept = append(kept, byte(rand.IntN(256)))
		}
	}
	f, err := fs.Create("data/"+newest, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(kept); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkPrefix(t *testing.T, o pebblestore.Options, fs vfs.FS, orders map[job.ID]job.Order) {
	t.Helper()
	o.FS = fs
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open with a torn log: %v", err)
	}
	defer s.Close()
	var last, lost job.Order
	for id, order := range orders {
		if _, err := s.Get(t.Context(), id); err == nil {
			last = max(last, order)
		} else if lost == 0 || order < lost {
			lost = order
		}
	}
	if lost != 0 && lost < last {
		t.Fatalf("order %d is lost and %d is there", lost, last)
	}
}
