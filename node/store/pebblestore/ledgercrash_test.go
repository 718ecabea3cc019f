package pebblestore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// TestLedgerAfterPowerCut cuts the power at many moments: each job that has ended stands in the ledger,
// once, and no other one.
func TestLedgerAfterPowerCut(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, l := vfs.NewCrashableMem(), &ledger{acks: map[job.ID]map[stage]time.Time{}}
				o.Dir, o.FS, o.Ledger = "data", mem, true
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
						crashes = append(crashes, l.take(mem, 50, always(), always()))
					}
				})
				load(t.Context(), s, l)
				stop()
				crashing.Wait()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				entered := 0
				for _, c := range crashes {
					o.FS = c.fs
					entered = max(entered, checkLedger(t, o))
				}
				if len(crashes) < 15 || entered == 0 {
					t.Fatalf("%d crashes were tried, with up to %d entries", len(crashes), entered)
				}
			})
		})
	}
}

// checkLedger compares the ledger with the jobs that have ended, and returns how many there are.
func checkLedger(t *testing.T, o pebblestore.Options) int {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer s.Close()
	entered := map[job.ID]bool{}
	batch, err := s.LedgerBatch(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range batch {
		entered[e.ID] = true
	}
	ended := 0
	for q := (store.Query{Status: job.Completed, Limit: 1000}); ; {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, snapshot := range page.Jobs {
			if ended++; !entered[snapshot.Job.ID] {
				t.Fatalf("job %s has ended and is not in the ledger", snapshot.Job.ID)
			}
		}
		if q.Before = page.Next; q.Before.IsZero() {
			break
		}
	}
	if len(batch) != ended || len(entered) != ended {
		t.Fatalf("%d entries of %d jobs, and %d have ended", len(batch), len(entered), ended)
	}
	return ended
}

// What was cleared in sync mode is gone for good: the next tenant is not to find it after a power cut.
func TestClearedStaysCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		o := pebblestore.Options{Dir: "data", FS: mem, Ledger: true}
		s := openMem(t, o)
		j := benchJob(1)
		in, err := s.Insert(t.Context(), j, store.Default)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := job.State{Order: in.Entry.Order}.Begin(1)
		next, _ := st.Finish(job.End{Status: job.Completed, At: 1, Keep: 1_800_000_000_000_000})
		if err := s.Begin(t.Context(), in.Entry, st, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finish(t.Context(), store.Finish{Job: j, Next: next}); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), j.ID, job.Webhook{State: job.WebhookDelivered}); err != nil {
			t.Fatal(err)
		}
		b, err := s.LedgerBatch(t.Context(), 10)
		if err != nil || len(b) != 1 {
			t.Fatal(b, err)
		}
		if err := s.LedgerFlushed(t.Context(), b[0].Sequence); err != nil {
			t.Fatal(err)
		}
		if n, err := s.ClearFlushed(t.Context()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{})
		s.Close()
		o.FS = clone
		again, err := pebblestore.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if got, err := again.Get(t.Context(), j.ID); err == nil {
			t.Fatalf("the cleared job is back: %v", got.State.Status)
		}
	})
}
