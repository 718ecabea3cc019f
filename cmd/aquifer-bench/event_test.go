package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestEventsSurviveThePipe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) event {
			return event{
				kind: kind(rapid.Byte().Draw(t, "kind")), flags: rapid.Byte().Draw(t, "flags"),
				attempt: rapid.Uint16().Draw(t, "attempt"), seq: rapid.Uint32().Draw(t, "seq"),
				at: rapid.Int64().Draw(t, "at"), job: rapid.Uint64().Draw(t, "job"),
			}
		})).Draw(t, "events")
		var raw []byte
		for _, e := range want {
			raw = e.append(raw)
		}
		raw = append(raw, make([]byte, rapid.IntRange(0, eventSize-1).Draw(t, "cut off"))...)
		var got []event
		if err := readEvents(iotest.OneByteReader(bytes.NewReader(raw)), func(e event) { got = append(got, e) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d events of %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("event %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	})
}

func TestReadEventsReportsFailure(t *testing.T) {
	broken := errors.New("broken")
	if err := readEvents(iotest.ErrReader(broken), func(event) {}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestOutletKeepsOrder has many goroutines add events, and wants each of theirs once and in order.
func TestOutletKeepsOrder(t *testing.T) {
	const writers, each = 8, 500
	r, w := io.Pipe()
	o := &outlet{w: w}
	var group sync.WaitGroup
	for g := range writers {
		group.Go(func() {
			for i := range each {
				o.add(event{seq: uint32(g), at: int64(i)}, i%3 == 0)
			}
		})
	}
	go func() {
		group.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.CloseWithError(o.run(ctx)) // writes what nobody waited for
	}()
	var next [writers]int64
	if err := readEvents(r, func(e event) {
		if e.at != next[e.seq] {
			t.Errorf("event %d of writer %d, want %d", e.at, e.seq, next[e.seq])
		}
		next[e.seq]++
	}); err != nil {
		t.Fatal(err)
	}
	for g, n := range next {
		if n != each {
			t.Errorf("%d events of writer %d", n, g)
		}
	}
}

func TestOutletReportsFailure(t *testing.T) {
	r, w := io.Pipe()
	broken := errors.New("broken")
	r.CloseWithError(broken)
	o := &outlet{w: w}
	o.add(event{}, true)
	o.add(event{}, true)
	if err := o.run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
