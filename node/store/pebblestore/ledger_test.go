package pebblestore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// bookkeeper is a store with a ledger in a test.
type bookkeeper struct {
	*testing.T
	*Store
	mem *vfs.MemFS
}

func keepBooks(t *testing.T, mem *vfs.MemFS) *bookkeeper {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: "data", FS: mem, FlushInterval: time.Hour, Ledger: true})
	if err != nil {
		t.Fatal(err)
	}
	return &bookkeeper{T: t, Store: s, mem: mem}
}

func (b *bookkeeper) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// end takes a job through to the end of its delivery.
func (b *bookkeeper) end(n byte) {
	b.Helper()
	id := job.ID{n}
	j := &job.Job{ID: id, Request: job.Request{
		UserID: "u", KeyName: id.String(), URL: "http://t.test", WebhookURL: "http://r.test",
	}}
	_, err := b.Insert(b.Context(), j, store.Default)
	b.ok(err)
	next := job.State{Status: job.Completed, ExpiresAt: time.Now().Add(time.Minute).UnixMilli()}
	_, err = b.Finish(b.Context(), store.Finish{Job: j, Next: next})
	b.ok(err)
	b.ok(b.Settle(b.Context(), id, job.Webhook{State: job.WebhookDelivered}))
}

// batch checks of which jobs the batch is, and returns where it ends.
func (b *bookkeeper) batch(limit int, want ...byte) (last job.Order) {
	b.Helper()
	list, err := b.LedgerBatch(b.Context(), limit)
	b.ok(err)
	if len(list) != len(want) {
		b.Fatalf("batch %+v, want %d", list, want)
	}
	for i, e := range list {
		if e.ID != (job.ID{want[i]}) {
			b.Fatalf("batch %+v, want %d", list, want)
		}
		last = e.Sequence
	}
	return last
}

// A power cut takes nothing of a batch that was handed out, although nothing else asks for the disk.
func TestLedgerBatchSurvivesPowerCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keepBooks(t, vfs.NewCrashableMem())
		b.end(1)
		b.end(2)
		last := b.batch(10, 1, 2)
		b.end(3)
		cut := keepBooks(t, b.mem.CrashClone(vfs.CrashCloneCfg{}))
		b.ok(b.Close())
		if again := cut.batch(10, 1, 2); again != last {
			t.Errorf("the batch ends with %d after the power cut, and did with %d", again, last)
		}
		b.ok(cut.Close())
	})
}

// Flushed jobs that are cleared, and those that expire, leave nothing.
func TestLedgerLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keepBooks(t, vfs.NewMem())
		for n := range byte(6) {
			b.end(n + 1)
		}
		b.ok(b.LedgerFlushed(t.Context(), b.batch(2, 1, 2)))
		if n, err := b.ClearFlushed(t.Context()); n != 2 || err != nil {
			t.Fatalf("%d cleared, %v", n, err)
		}
		b.ok(b.LedgerFlushed(t.Context(), b.batch(2, 3, 4)))
		time.Sleep(time.Minute)
		if n, err := b.Expire(t.Context(), time.Now(), 10); n != 4 || err != nil {
			t.Fatalf("%d expired, %v", n, err)
		}
		b.ok(b.LedgerFlushed(t.Context(), b.batch(2, 5, 6)))
		for key := range b.keys(0) {
			if key[0] != kindMeta {
				t.Errorf("left over: %q", key)
			}
		}
		b.ok(b.Close())
	})
}

// keys iterates over the keys of a kind; of all kinds for 0.
func (b *bookkeeper) keys(kind byte) func(yield func(key string) bool) {
	return func(yield func(key string) bool) {
		it, err := b.db.NewIter(nil)
		b.ok(err)
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			if (kind == 0 || it.Key()[0] == kind) && !yield(string(it.Key())) {
				return
			}
		}
	}
}

// What cannot be read is left out, and everything else goes on.
func TestLedgerUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keepBooks(t, vfs.NewMem())
		for n := range byte(4) {
			b.end(n + 1)
		}
		b.batch(1, 1)
		spoil := func(key, value string) {
			t.Helper()
			b.ok(b.db.Set([]byte(key), []byte(value), pebble.Sync))
		}
		spoil(string(metaKey(metaCut)), "\xff") // no number: the batch is cut anew
		b.ok(b.LedgerFlushed(t.Context(), b.batch(3, 1, 2, 3)))
		spoil(string(appendID(nil, kindState, job.ID{2})), "garbage")
		spoil(string([]byte{kindFlushed, 1}), "")
		if n, err := b.ClearFlushed(t.Context()); n != 2 || err != nil {
			t.Fatalf("%d cleared, %v", n, err)
		}
		if _, err := b.Get(t.Context(), job.ID{2}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("unreadable job: %v", err)
		}
		b.end(5)
		for key := range b.keys(kindLedger) {
			spoil(key, "garbage")
			break
		}
		spoil(string([]byte{kindLedger, 0}), "")
		b.ok(b.LedgerFlushed(t.Context(), b.batch(10, 5)))
		b.batch(10)
		b.ok(b.Close())
	})
}

// A store that is not asked to keep a ledger writes nothing for it, and still gives out what it has.
func TestLedgerTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := keepBooks(t, vfs.NewMem())
		b.end(1)
		b.ok(b.Close())
		s, err := Open(t.Context(), Options{Dir: "data", FS: b.mem})
		b.ok(err)
		b.Store = s
		b.end(2)
		b.ok(b.LedgerFlushed(t.Context(), b.batch(10, 1)))
		if n, err := b.ClearFlushed(t.Context()); n != 1 || err != nil {
			t.Fatalf("%d cleared, %v", n, err)
		}
		b.ok(b.Close())
	})
}
