package events_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Whatever a body holds and however long it is, its pieces are together what a reader would get at once.
func TestPiecesAreTheJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := tried(1)
		l.begin()
		pattern := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "text") {
			pattern = []byte(rapid.StringN(1, 9, -1).Draw(t, "characters"))
		}
		body := bytes.Repeat(pattern, rapid.IntRange(0, 30_000).Draw(t, "times"))
		status := rapid.SampledFrom([]job.Status{job.Completed, job.Failed}).Draw(t, "status")
		e := l.end(job.End{
			Status: status, Reason: `"body":""`, Last: &job.Attempt{Number: 2},
			Result: &job.Result{Status: 200, Body: body, Truncated: rapid.Bool().Draw(t, "cut")},
		})
		whole, err := e.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if got := joined(t, e); !bytes.Equal(got, whole) {
			t.Errorf("%d bytes in pieces, %d at once", len(got), len(whole))
		}
	})
}

// joined also checks that no piece is large.
func joined(t *rapid.T, e events.Event) []byte {
	var all []byte
	for piece, err := range e.Pieces() {
		if err != nil || len(piece) > 6*64<<10 {
			t.Fatalf("a piece of %d bytes, %v", len(piece), err)
		}
		all = append(all, piece...)
	}
	return all
}

func TestPiecesOfEventsWithoutBody(t *testing.T) {
	for _, e := range []events.Event{newLife().begin(), newLife().drop(), events.Gap(6, events.GapTrimmed), tried(1).complete("")} {
		whole, err := e.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for piece, err := range e.Pieces() {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, piece...)
		}
		if !bytes.Equal(all, whole) {
			t.Errorf("%s, want %s", all, whole)
		}
	}
}

// Listeners that take nothing hold nothing of a large body beside the one that they share.
func TestListenersShareABody(t *testing.T) {
	l := tried(0)
	l.begin()
	e := l.complete(strings.Repeat("x", 16<<20))
	before := allocated()
	for range 30 {
		pieces := 0
		for _, err := range e.Pieces() {
			if err != nil {
				t.Fatal(err)
			}
			if pieces++; pieces == 2 {
				break // the listener hangs in the body
			}
		}
	}
	if grown := allocated() - before; grown > 16<<20 {
		t.Errorf("%d bytes were needed", grown)
	}
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
