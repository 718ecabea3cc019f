package pebblestore_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// hang makes one operation on logs hang until the returned function is called.
func hang(fs *faultFS, op string) (release func()) {
	gate := make(chan struct{})
	fs.setFault(func(o, name string) error {
		if o == op && isLog(name) {
			<-gate
		}
		return nil
	})
	return func() {
		fs.setFault(nil)
		close(gate)
	}
}

// TestHangingSync: on a disk that does not answer syncs, a strict store acknowledges no job, while attempts
// at jobs that it has go on. One sync answers all who have waited.
func TestHangingSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		s := openMem(t, pebblestore.Options{FS: fs})
		defer s.Close()
		j := benchJob(1)
		in, err := s.Insert(t.Context(), j, store.Default)
		if err != nil {
			t.Fatal(err)
		}
		release := hang(fs, "sync")

		var waiting sync.WaitGroup
		acknowledged := 0
		var mu sync.Mutex
		for n := range int64(20) {
			waiting.Go(func() {
				got, err := s.Insert(t.Context(), benchJob(2+n), store.Default)
				mu.Lock()
				defer mu.Unlock()
				if acknowledged++; err != nil || got.Durability != store.Sync {
					t.Errorf("after the hang: %v, %v", got, err)
				}
			})
		}
		next, _ := job.State{Order: in.Entry.Order}.Begin(1)
		if err := s.Begin(t.Context(), in.Entry, next, time.Now()); err != nil {
			t.Fatalf("begin waits for the disk: %v", err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if acknowledged != 0 {
			t.Fatalf("%d jobs were acknowledged before they were on disk", acknowledged)
		}
		if lag := s.Usage().SyncLag; lag < 3*time.Second {
			t.Fatalf("lag of %v on a disk that hangs since 3 s", lag)
		}
		release()
		waiting.Wait()
		time.Sleep(time.Second) // nobody waits for the beginning of the attempt: its sync comes later
		if lag := s.Usage().SyncLag; lag != 0 {
			t.Fatalf("lag of %v when all is on disk", lag)
		}
	})
}

// TestHangingWrite: a disk that does not answer writes shows as lag in both modes.
func TestHangingWrite(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := newFaultFS(vfs.NewMem())
				o.FS = fs
				s := openMem(t, o)
				defer s.Close()
				release := hang(fs, "write")
				var waiting sync.WaitGroup
				waiting.Go(func() {
					if _, err := s.Insert(t.Context(), benchJob(1), store.Default); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(2 * time.Second)
				if lag := s.Usage().SyncLag; lag < 2*time.Second {
					t.Errorf("lag of %v on a disk that hangs since 2 s", lag)
				}
				release()
				waiting.Wait()
			})
		})
	}
}

// TestFailedSyncIsTheEnd: a strict store whose log cannot be synced refuses what it cannot promise, and
// everything after it.
func TestFailedSyncIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		s := openMem(t, pebblestore.Options{FS: fs})
		defer s.Close()
		fs.setFault(func(op, name string) error {
			if op == "sync" && isLog(name) {
				return syscall.EIO
			}
			return nil
		})
		if _, err := s.Insert(t.Context(), benchJob(1), store.Default); !errors.Is(err, store.ErrFailed) {
			t.Fatalf("a job that is not on disk: %v", err)
		}
		fs.setFault(nil)
		if _, err := s.Insert(t.Context(), benchJob(2), store.Default); !errors.Is(err, store.ErrFailed) {
			t.Fatalf("a later job: %v", err)
		}
		<-s.Failed()
	})
}
