package pebblestore_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNewerVersion refuses data of a newer program, and names both versions.
func TestNewerVersion(t *testing.T) {
	mem := vfs.NewMem()
	o := pebblestore.Options{Dir: "data", FS: mem}
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open("data", &pebble.Options{FS: mem, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte("mversion"), []byte{200, 1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pebblestore.Open(t.Context(), o)
	if !errors.Is(err, store.ErrVersion) {
		t.Fatalf("open of newer data: %v", err)
	}
	for _, part := range []string{"version 200", "up to 1", "data"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// TestOpenTwice: a directory has one store at a time.
func TestOpenTwice(t *testing.T) {
	o := pebblestore.Options{Dir: t.TempDir(), FlushInterval: time.Second}
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.Open(t.Context(), o); err == nil {
		t.Fatal("one directory was opened twice")
	}
	j := benchJob(1)
	if _, err := s.Insert(t.Context(), j, store.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = pebblestore.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	if u := s.Usage(); u.Bytes <= 0 || u.Bytes > 100<<20 {
		t.Errorf("an almost empty store has %d bytes", u.Bytes)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncLag reads the lag while nothing syncs, and after the timer did.
func TestSyncLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openMem(t, pebblestore.Options{FlushInterval: time.Second})
		defer s.Close()
		time.Sleep(5 * time.Second)
		if lag := s.Usage().SyncLag; lag != 0 {
			t.Fatalf("lag of %v with nothing written", lag)
		}
		if _, err := s.Insert(t.Context(), benchJob(1), store.Default); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond)
		if lag := s.Usage().SyncLag; lag != 700*time.Millisecond {
			t.Fatalf("lag of %v after 700 ms", lag)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if lag := s.Usage().SyncLag; lag != 0 {
			t.Fatalf("lag of %v after the timer", lag)
		}
	})
}

func openMem(t *testing.T, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Dir = "data"
	s, err := pebblestore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFailedSync: when a late sync fails the lag grows and nobody is told that a job is durable, until
// the content of that log stands in a table.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFaultFS(vfs.NewMem())
		s := openMem(t, pebblestore.Options{FlushInterval: 100 * time.Millisecond, FS: fs})
		defer s.Close()
		tables := true
		fs.setFault(func(op, name string) error {
			if op == "sync" && isLog(name) || op == "write" && strings.HasSuffix(name, ".sst") && tables {
				return syscall.EIO
			}
			return nil
		})
		j := benchJob(1)
		if _, err := s.Insert(t.Context(), j, store.Default); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if lag := s.Usage().SyncLag; lag < 400*time.Millisecond {
			t.Fatalf("lag of %v while syncs fail", lag)
		}
		if _, err := s.Insert(t.Context(), benchJob(2), store.Sync); err == nil {
			t.Fatal("a job was called durable while syncs fail")
		}
		fs.setFault(nil)
		time.Sleep(5 * time.Second)
		if _, err := s.Insert(t.Context(), benchJob(3), store.Sync); err != nil {
			t.Fatalf("insert after the disk has recovered: %v", err)
		}
		if lag := s.Usage().SyncLag; lag != 0 {
			t.Fatalf("lag of %v after the disk has recovered", lag)
		}
	})
}

// TestMetrics registers the metrics, and gives them up at the end, so that a store can be opened again.
func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	mem := vfs.NewMem()
	for range 2 {
		s := openMem(t, pebblestore.Options{Registerer: r, FS: mem, FlushInterval: time.Hour})
		if _, err := s.Insert(t.Context(), benchJob(time.Now().UnixNano()), store.Default); err != nil {
			t.Fatal(err)
		}
		if all, err := r.Gather(); len(all) != 9 || err != nil {
			t.Fatalf("metrics %v, %v", all, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := r.Gather(); len(all) != 0 || err != nil {
		t.Fatalf("metrics after the end: %v, %v", all, err)
	}
}
