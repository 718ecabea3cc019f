package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.Custom(func(t *rapid.T) job.Entry {
			return job.Entry{
				Lane: job.Lane{
					Target: rapid.StringMatching(`https?://[a-c.]{1,3}(:80)?`).Draw(t, "target"),
					Tenant: job.Tenant(rapid.SliceOfN(rapid.Byte(), tenantLen, tenantLen).Draw(t, "tenant")),
				},
				Order: job.Order(rapid.Uint64().Draw(t, "order")),
				ID:    job.ID(rapid.SliceOfN(rapid.Byte(), idLen, idLen).Draw(t, "id")),
			}
		})
		a, b := entry.Draw(t, "a"), entry.Draw(t, "b")
		if rapid.Bool().Draw(t, "one lane") {
			b.Lane = a.Lane
		}
		keyA, keyB := appendPlace(nil, job.Calls, a.Lane, a.Order), appendPlace(nil, job.Calls, b.Lane, b.Order)
		var reader laneReader
		if got, ok := reader.entry(keyA, a.ID[:]); !ok || got != a {
			t.Fatalf("%+v is read as %+v", a, got)
		}
		if a.Lane == b.Lane && bytes.Compare(keyA, keyB) != bytes.Compare(a.Order.AppendKey(nil), b.Order.AppendKey(nil)) {
			t.Fatal("places of a lane do not sort by their orders")
		}
		prefix := appendLanePrefix(nil, job.Calls, a.Lane)
		if inside := bytes.HasPrefix(keyB, prefix); inside != (a.Lane == b.Lane) {
			t.Fatalf("place in %v is in the lane %v: %v", b.Lane, a.Lane, inside)
		}
	})
}

// TestSort sorts writes whose keys share beginnings, or are short.
func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) string {
			length := rapid.IntRange(1, 12).Draw(t, "length")
			return string(rapid.SliceOfN(rapid.ByteMax(1), length, length).Draw(t, "bytes"))
		})
		keys := rapid.SliceOfDistinct(key, func(k string) string { return k }).Draw(t, "keys")
		var c committer
		for _, k := range keys {
			c.writes = append(c.writes, write{key: []byte(k)})
		}
		var got []string
		for _, r := range c.sort() {
			got = append(got, string(c.writes[r.at].key))
		}
		slices.Sort(keys)
		if !slices.Equal(got, keys) {
			t.Fatalf("sorted are %q, want %q", got, keys)
		}
	})
}

func TestAfter(t *testing.T) {
	for _, test := range []struct{ prefix, want string }{
		{"a", "b"}, {"a\xff", "b"}, {"l\x01", "l\x02"}, {"\xff", ""},
	} {
		if got := string(after([]byte(test.prefix))); got != test.want {
			t.Errorf("after %q comes %q, want %q", test.prefix, got, test.want)
		}
	}
}

func TestCompany(t *testing.T) {
	const limit = 2 * time.Millisecond
	for n, want := range map[int]time.Duration{
		0: 0, 1: 0, 8: 0, 9: 144 * time.Microsecond, 50: 800 * time.Microsecond, 125: limit, 10_000: limit,
	} {
		if got := company(n, limit); got != want {
			t.Errorf("%d wait: %v, want %v", n, got, want)
		}
	}
	if got := company(10_000, 0); got != 0 {
		t.Errorf("without a limit: %v", got)
	}
}

func TestMemtableFitsVolume(t *testing.T) {
	for _, test := range []struct{ volume, want int64 }{
		{32 << 20, 1 << 20}, {64 << 20, 1 << 20}, {256 << 20, 4 << 20}, {1 << 30, 16 << 20}, {1 << 40, 16 << 20},
	} {
		mem := vfs.NewMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: uint64(test.volume), AvailBytes: 1})
		if got := memtableBytes(Options{FS: mem, Dir: "a/b"}); got != test.want {
			t.Errorf("memtable of %d on a volume of %d, want %d", got, test.volume, test.want)
		}
	}
	if got := memtableBytes(Options{FS: vfs.NewMem(), Dir: "a"}); got != maxMemtable {
		t.Errorf("memtable of %d on a volume of unknown size", got)
	}
}

func hashOf(n int) (h job.KeyHash) {
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return h
}

// TestFilter wears the filter out and fills it again: no key is ever forgotten, and few are seen that are
// not there.
func TestFilter(t *testing.T) {
	f := newKeyFilter()
	<-f.refill
	if !f.mayHave(hashOf(1)) {
		t.Fatal("a filter that knows nothing calls a key free")
	}
	f.add(hashOf(1)) // on disk before begin
	f.begin(100)
	f.add(hashOf(2))
	f.fill([]job.KeyHash{hashOf(1)})
	f.end(98)
	for n := 3; n <= 100; n++ {
		f.add(hashOf(n))
	}
	select {
	case <-f.refill:
	default:
		t.Fatal("a worn filter does not want to be filled again")
	}
	f.begin(1000)
	f.add(hashOf(101))
	for n := 1; n <= 100; n++ {
		f.fill([]job.KeyHash{hashOf(n)})
	}
	f.end(899)
	wrong := 0
	for n := 1; n <= 10_000; n++ {
		if may := f.mayHave(hashOf(n)); n <= 101 && !may {
			t.Fatalf("key %d was forgotten", n)
		} else if n > 101 && may {
			wrong++
		}
	}
	if wrong > 100 {
		t.Fatalf("%d of 10,000 free keys look taken", wrong)
	}
}

// TestNothingIsLeft takes jobs through every state and lets them expire: the database is empty again.
func TestNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), Options{Dir: "data", FS: vfs.NewMem(), FlushInterval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ids := job.IDs{Rand: strings.NewReader(strings.Repeat("randomly", 100))}
		for _, end := range []job.WebhookState{job.WebhookDelivered, job.WebhookFailed, job.WebhookRejected, job.WebhookSkipped} {
			for _, postponed := range []bool{false, true} {
				for _, owedAgain := range []bool{false, true} {
					id, err := ids.New(time.Now())
					if err != nil {
						t.Fatal(err)
					}
					spend(t, s, id, end, postponed, owedAgain)
					time.Sleep(time.Millisecond) // so that the next id is another one
				}
			}
		}
		time.Sleep(time.Hour)
		if n, err := s.Expire(t.Context(), time.Now(), 100); n != 16 || err != nil {
			t.Fatalf("%d jobs have expired, %v", n, err)
		}
		it, err := s.db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			if it.Key()[0] != kindMeta {
				t.Errorf("left over: %q", it.Key())
			}
		}
	})
}

// spend takes a job from its acceptance to its end.
func spend(t *testing.T, s *Store, id job.ID, end job.WebhookState, postponed, owedAgain bool) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	j := &job.Job{ID: id, Request: job.Request{
		UserID: "u", KeyName: id.String(), URL: "http://t.test", WebhookURL: "http://r.test",
	}}
	in, err := s.Insert(ctx, j, store.Default)
	must(err)
	e := in.Entry
	must(s.Begin(ctx, e, job.State{Tried: 1}, time.Now()))
	must(s.Retry(ctx, e, job.State{Tried: 1, DueAt: 5}))
	e, err = s.Requeue(ctx, store.Due{At: 5, Kind: store.DueCall, ID: id, Lane: e.Lane})
	must(err)
	must(s.Begin(ctx, e, job.State{Tried: 2}, time.Now()))
	next := job.State{Status: job.Failed, Tried: 2, ExpiresAt: time.Now().Add(time.Minute).UnixMilli()}
	d, err := s.Finish(ctx, store.Finish{Job: j, Next: next, Payload: []byte("payload")})
	must(err)
	if postponed {
		must(s.Postpone(ctx, d, job.Webhook{State: job.WebhookPending, DueAt: 7}))
	}
	must(s.Settle(ctx, id, job.Webhook{State: end}))
	if owedAgain {
		_, err := s.Owe(ctx, id)
		must(err)
		must(s.Settle(ctx, id, job.Webhook{State: end}))
	}
}

// TestReadWhileClosing reads inside an iteration while the store closes: the reader is told, and nobody
// waits for the other.
func TestReadWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), Options{Dir: "data", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		j := &job.Job{ID: job.ID{1}, Request: job.Request{URL: "http://t.test", WebhookURL: "http://r.test"}}
		if _, err := s.Insert(t.Context(), j, store.Default); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		for e, err := range s.Waiting(t.Context(), job.Calls) {
			if err != nil {
				t.Fatal(err)
			}
			go func() { closed <- s.Close() }()
			synctest.Wait()
			if _, err := s.Get(t.Context(), e.ID); !errors.Is(err, store.ErrClosed) {
				t.Fatalf("read while closing: %v", err)
			}
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	})
}
