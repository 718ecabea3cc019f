package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// two are the disks of a giver and its peer.
type two struct{ giver, peer vfs.FS }

// disks are two disks that are copied, as a crash would leave them, with every write and sync of either.
type disks struct {
	mems    [2]*vfs.MemFS
	percent int
	mu      sync.Mutex // guards crashes
	crashes []two
}

func (d *disks) crash(string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clone := func(m *vfs.MemFS) vfs.FS {
		rng := rand.New(rand.NewPCG(2, uint64(len(d.crashes))))
		return m.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.percent, RNG: rng})
	}
	d.crashes = append(d.crashes, two{clone(d.mems[0]), clone(d.mems[1])})
}

func openOn(t *testing.T, o pebblestore.Options, fs vfs.FS) *pebblestore.Store {
	t.Helper()
	o.Dir, o.FS = "data", fs
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHandOffCrash lets both machines crash at every write and sync of a hand-off: no job is lost, no job
// stands at both nodes, and what is in doubt is cleared by offering it again.
func TestHandOffCrash(t *testing.T) {
	for mode, o := range modes {
		for _, percent := range []int{0, 50, 100} {
			t.Run(fmt.Sprint(mode, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { handOffCrash(t, o, percent) })
			})
		}
	}
}

func handOffCrash(t *testing.T, o pebblestore.Options, percent int) {
	d := &disks{mems: [2]*vfs.MemFS{vfs.NewCrashableMem(), vfs.NewCrashableMem()}, percent: percent}
	watched := [2]*faultFS{newFaultFS(d.mems[0]), newFaultFS(d.mems[1])}
	giver, peer := openOn(t, o, watched[0]), openOn(t, o, watched[1])
	all := everyKind(t, giver)
	if err := giver.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, fs := range watched {
		fs.setFault(func(op, name string) error {
			if isLog(name) {
				d.crash(name)
			}
			return nil
		})
	}
	for range 2 { // as batches: of the second one only what is new
		handOver(t, giver, peer, 3)
	}
	for _, s := range []*pebblestore.Store{giver, peer} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.crashes) < 10 {
		t.Fatalf("only %d crashes were tried", len(d.crashes))
	}
	for _, c := range d.crashes {
		giver, peer := openOn(t, o, c.giver), openOn(t, o, c.peer)
		nowhereTwice(t, giver, peer, all)
		clearUp(t, giver, peer)
		if n := nowhereTwice(t, giver, peer, all); n != len(all) {
			t.Fatalf("%d of %d jobs stand somewhere", n, len(all))
		}
		if err := errors.Join(giver.Close(), peer.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// everyKind makes jobs that wait in a lane, for a retry, and for their delivery.
func everyKind(t *testing.T, s *pebblestore.Store) (all []job.ID) {
	t.Helper()
	for n := range 6 {
		j := benchJob(int64(n))
		in, err := s.Insert(t.Context(), j, store.Default)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j.ID)
		if n%3 == 0 {
			continue
		}
		st, _ := job.State{Order: in.Entry.Order}.Begin(1)
		err = s.Begin(t.Context(), in.Entry, st, time.Now())
		if n%3 == 1 {
			st, _ = st.Retry(job.Attempt{Number: 1}, time.Now().Add(time.Hour).UnixMilli())
			err = errors.Join(err, s.Retry(t.Context(), in.Entry, st))
		} else {
			st, _ = st.Finish(job.End{Status: job.Completed, At: time.Now().UnixMilli(), Keep: 1e6})
			_, done := s.Finish(t.Context(), store.Finish{Job: j, Next: st})
			err = errors.Join(err, done)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// handOver hands so many jobs over.
func handOver(t *testing.T, giver, peer *pebblestore.Store, n int) {
	t.Helper()
	var work []store.Handed
	for h, err := range giver.Unfinished(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if work = append(work, h); len(work) == n {
			break
		}
	}
	taken, err := giver.Offer(t.Context(), "peer", work)
	if err != nil || len(taken) != n {
		t.Fatal(len(taken), err)
	}
	adoptAndForget(t, giver, peer, taken)
}

func adoptAndForget(t *testing.T, giver, peer *pebblestore.Store, work []store.Handed) {
	t.Helper()
	got, err := peer.Adopt(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range got {
		if a.Verdict != store.Adopted && a.Verdict != store.Held {
			t.Fatalf("job %d: %v", i, a.Verdict)
		}
	}
	if err := giver.Forget(t.Context(), "peer", work); err != nil {
		t.Fatal(err)
	}
}

// clearUp offers again what the crash has left in doubt.
func clearUp(t *testing.T, giver, peer *pebblestore.Store) {
	t.Helper()
	var work []store.Handed
	for x, err := range giver.Offers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		work = append(work, x.Handed)
	}
	adoptAndForget(t, giver, peer, work)
}

// nowhereTwice returns how many of the jobs stand in a place, and fails the test if one stands in two.
func nowhereTwice(t *testing.T, giver, peer *pebblestore.Store, all []job.ID) int {
	t.Helper()
	count := map[job.ID]int{}
	for _, s := range []*pebblestore.Store{giver, peer} {
		for h, err := range s.Unfinished(context.WithoutCancel(t.Context())) {
			if err != nil {
				t.Fatal(err)
			}
			count[h.Job.ID]++
		}
	}
	for _, id := range all {
		if count[id] > 1 {
			t.Fatalf("job %s stands at both nodes", id)
		}
	}
	return len(count)
}

// TestAdoptOnAFullDisk: a disk without room takes no work of others, and its own can be handed over.
func TestAdoptOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		s := openOn(t, modes["sync"], fs)
		defer s.Close()
		all := everyKind(t, s)
		fs.resize(0)
		for n := int64(100); !s.Full(); n++ {
			j := benchJob(n)
			j.Request.Body = make([]byte, 100_000)
			if _, err := s.Insert(t.Context(), j, store.Default); err == nil {
				all = append(all, j.ID)
			}
		}
		stranger := store.NewHanded(job.Snapshot{Job: benchJob(1000)}, nil)
		if _, err := s.Adopt(t.Context(), []store.Handed{stranger}); !errors.Is(err, store.ErrFull) {
			t.Fatalf("a full disk says %v", err)
		}
		var work []store.Handed
		for h, err := range s.Unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			work = append(work, h)
		}
		taken, err := s.Offer(t.Context(), "peer", work)
		if err != nil || len(taken) != len(all) {
			t.Fatal(len(taken), len(all), err)
		}
		if err := s.Forget(t.Context(), "peer", taken); err != nil {
			t.Fatal(err)
		}
	})
}

// An offer whose caller has gone by the time it is on disk is an offer all the same.
func TestOfferOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		s := openMem(t, pebblestore.Options{FS: fs})
		defer s.Close()
		if _, err := s.Insert(t.Context(), benchJob(1), store.Default); err != nil {
			t.Fatal(err)
		}
		var work []store.Handed
		for h, err := range s.Unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			work = append(work, h)
		}
		release := hang(fs, "sync")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { _, err := s.Offer(ctx, "peer", work); got <- err }()
		synctest.Wait()
		cancel()
		if err := <-got; err == nil {
			t.Fatal("no error")
		}
		release()
		if _, err := s.Keep(t.Context(), "peer", work); err != nil { // what pass.offer does
			t.Fatal(err)
		}
		n := 0
		for range s.Unfinished(t.Context()) {
			n++
		}
		offers := 0
		for range s.Offers(t.Context()) {
			offers++
		}
		if n != 1 || offers != 0 {
			t.Fatalf("after Keep the job stands at %d places and is offered %d times", n, offers)
		}
	})
}
