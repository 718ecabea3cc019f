package pebblestore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// volume64 is a store on a volume of 64 MB.
type volume64 struct {
	t      *testing.T
	fs     *faultFS
	o      pebblestore.Options
	s      *pebblestore.Store
	jobs   []*job.Job // acknowledged
	ids    []job.ID   // also of those that were not
	at     map[job.ID]job.Entry
	random *rand.ChaCha8
}

// onVolume runs a test in both modes.
func onVolume(t *testing.T, test func(t *testing.T, v *volume64)) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &volume64{
					t: t, fs: newFaultFS(vfs.NewMem()), o: o, at: map[job.ID]job.Entry{}, random: rand.NewChaCha8([32]byte{1}),
				}
				v.fs.resize(64 << 20)
				v.o.Dir, v.o.FS = "data", v.fs
				v.open()
				defer func() {
					v.fs.resize(64 << 20)
					v.close()
				}()
				test(t, v)
			})
		})
	}
}

func (v *volume64) open() {
	v.t.Helper()
	s, err := pebblestore.Open(v.t.Context(), v.o)
	if err != nil {
		v.t.Fatal(err)
	}
	v.s = s
}

func (v *volume64) close() {
	v.t.Helper()
	if err := v.s.Close(); err != nil {
		v.t.Fatal(err)
	}
}

// insert adds a job with a body that does not compress.
func (v *volume64) insert(ctx context.Context) error {
	j := benchJob(int64(len(v.jobs)))
	j.Request.Body = make([]byte, 100_000)
	if _, err := v.random.Read(j.Request.Body); err != nil {
		return err
	}
	v.ids = append(v.ids, j.ID)
	in, err := v.s.Insert(ctx, j, store.Default)
	if err == nil {
		v.jobs = append(v.jobs, j)
		v.at[j.ID] = in.Entry
	}
	return err
}

// insertSoon adds a job as soon as the store takes one.
func (v *volume64) insertSoon() {
	v.t.Helper()
	var err error
	for range 60 {
		if err = v.insert(v.t.Context()); !errors.Is(err, store.ErrFull) {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		v.t.Fatalf("insert after there is room again: %v", err)
	}
}

// fill adds jobs until the disk is full.
func (v *volume64) fill() {
	v.t.Helper()
	for range 2000 {
		switch err := v.insert(v.t.Context()); {
		case errors.Is(err, store.ErrFull):
			return
		case err != nil:
			v.t.Fatal(err)
		}
	}
	v.t.Fatal("the disk does not get full")
}

// life takes an accepted job to its end.
func (v *volume64) life(ctx context.Context, j *job.Job) error {
	st, _ := job.State{}.Begin(1)
	if err := v.s.Begin(ctx, v.at[j.ID], st, time.Now()); err != nil {
		return err
	}
	next, _ := st.Finish(job.End{Status: job.Completed, At: time.Now().UnixMilli(), Keep: 1_800_000})
	if _, err := v.s.Finish(ctx, store.Finish{Job: j, Next: next}); err != nil {
		return err
	}
	return v.s.Settle(ctx, j.ID, job.Webhook{State: job.WebhookDelivered})
}

// check finds every acknowledged job, and nothing that was never asked for.
func (v *volume64) check() {
	v.t.Helper()
	for _, j := range v.jobs {
		if _, err := v.s.Get(v.t.Context(), j.ID); err != nil {
			v.t.Fatalf("acknowledged job is lost: %v", err)
		}
	}
	if err := storetest.CheckPlaces(v.t.Context(), v.s, v.ids); err != nil {
		v.t.Fatal(err)
	}
}

// TestDK01_FullDisk: what was accepted goes on, and intake opens again when there is room.
func TestDK01_FullDisk(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		v.fs.resize(24 << 20) // the rest is taken by others
		v.fill()
		if len(v.jobs) < 60 {
			t.Fatalf("only %d jobs of 100 kB fit", len(v.jobs))
		}
		v.check()
		for _, j := range v.jobs[:40] {
			if err := v.life(t.Context(), j); err != nil {
				t.Fatalf("an accepted job cannot go on: %v", err)
			}
		}
		if err := v.insert(t.Context()); !errors.Is(err, store.ErrFull) {
			t.Fatalf("insert on a full disk: %v", err)
		}
		duplicate, err := v.s.Insert(t.Context(), v.jobs[50], store.Default)
		if err != nil || duplicate.Holder == nil {
			t.Fatalf("duplicate on a full disk: %v, %v", duplicate, err)
		}
		v.fs.resize(30 << 20)
		v.insertSoon()
		v.close()
		v.open()
		v.check()
	})
}

// TestOpenFull opens a store on a disk without room: the ballast makes some.
func TestOpenFull(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		v.fs.resize(20 << 20)
		v.fill()
		v.close()
		v.fs.resize(0)
		v.open()
		v.check()
		for _, j := range v.jobs[:10] {
			if err := v.life(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNoRoomToOpen gives up when its context ends, and says why.
func TestNoRoomToOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		fs.resize(1)
		o := modes["sync"]
		o.Dir, o.FS = "data", fs
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := pebblestore.Open(ctx, o); !errors.Is(err, store.ErrFull) {
			t.Fatalf("open without room: %v", err)
		}
	})
}

// noRoom makes every write find the disk full, whatever ballast is given up.
func (v *volume64) noRoom() {
	v.fs.setFault(func(op, _ string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
}

// TestNothingLeft has no room even without the ballast: changes wait, callers with a deadline get an
// answer, reads go on, and so does all the rest when there is room.
func TestNothingLeft(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		for range 30 {
			if err := v.insert(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		v.noRoom()
		for range 10 {
			for name, change := range map[string]func(context.Context) error{
				"insert": v.insert,
				"life":   func(ctx context.Context) error { return v.life(ctx, v.jobs[0]) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if err := change(ctx); !errors.Is(err, store.ErrFull) {
					t.Fatalf("%s without room: %v", name, err)
				}
				cancel()
			}
		}
		waiting := make(chan error)
		go func() { waiting <- v.life(t.Context(), v.jobs[1]) }()
		time.Sleep(10 * time.Second)
		v.check()
		v.fs.setFault(nil)
		if err := <-waiting; err != nil {
			t.Fatalf("a change that waited for room: %v", err)
		}
		v.insertSoon()
	})
}

// TestCloseFull closes while changes wait for room: they are answered, and nothing acknowledged is lost.
func TestCloseFull(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		for range 30 {
			if err := v.insert(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		v.noRoom()
		waiting := make(chan error)
		go func() { waiting <- v.life(context.Background(), v.jobs[0]) }()
		time.Sleep(time.Second)
		v.close()
		if err := <-waiting; !errors.Is(err, store.ErrClosed) {
			t.Fatalf("a change that waited when the store closed: %v", err)
		}
		v.fs.setFault(nil)
		v.open()
		v.check()
	})
}

// TestBrokenDisk fails one write of the log: nothing is accepted from then on, reads go on, and opened
// again the store has all that was acknowledged.
func TestBrokenDisk(t *testing.T) {
	broken := syscall.EIO
	for _, test := range []struct{ name, op, suffix string }{
		{"log write", "write", ".log"}, {"log sync", "sync", ".log"}, {"manifest", "write", "MANIFEST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onVolume(t, func(t *testing.T, v *volume64) {
				if v.o.FlushInterval > 0 && test.op == "sync" {
					return // a late sync that fails is another matter: TestFailedSync
				}
				for range 20 {
					if err := v.insert(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				v.fs.setFault(func(op, name string) error {
					if op == test.op && strings.Contains(name, test.suffix) {
						return broken
					}
					return nil
				})
				var err error
				for range 100 {
					if err = v.insert(t.Context()); err != nil {
						break
					}
				}
				if !errors.Is(err, broken) {
					t.Fatalf("insert on a broken disk: %v", err)
				}
				v.fs.setFault(nil)
				if err := v.insert(t.Context()); !errors.Is(err, broken) {
					t.Fatalf("insert after the disk was broken: %v", err)
				}
				for _, j := range v.jobs {
					if _, err := v.s.Get(t.Context(), j.ID); err != nil {
						t.Fatal(err)
					}
				}
				if err := v.s.Close(); !errors.Is(err, broken) {
					t.Fatalf("close after the disk was broken: %v", err)
				}
				v.open()
				v.check()
			})
		})
	}
}
