package pebblestore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestStalls: every stall is counted, and one in a while is told from its beginning to its end.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &stalls{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for range 25 {
			s.begin(pebble.WriteStallBeginInfo{Reason: "too many tables"})
			if s.since.Load() == 0 {
				t.Error("no stall is on")
			}
			time.Sleep(500 * time.Millisecond)
			s.end()
			if s.since.Load() != 0 {
				t.Error("a stall that has ended is on")
			}
		}
		begun := strings.Count(log.String(), `msg="writes are held back" cause="too many tables"`)
		if ended := strings.Count(log.String(), `msg="writes go on" held_back=500ms`); begun != 2 || ended != 2 || s.count.Load() != 25 {
			t.Errorf("%d stalls:\n%s", s.count.Load(), &log)
		}
	})
}

// TestSlowDisk: every slow write is counted, and one in a while is told.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		v := &volume{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for _, took := range []time.Duration{0, slowDisk - 1, slowDisk, 2 * slowDisk} {
			end := v.timed("sync")
			time.Sleep(took)
			end()
		}
		if n := strings.Count(log.String(), `level=WARN msg="disk is slow" operation=sync took=1s`); n != 1 || v.slow.Load() != 2 {
			t.Errorf("%d slow writes:\n%s", v.slow.Load(), &log)
		}
	})
}

// TestBallastGivenUp: the line about a full disk speaks of an error only if there is one.
func TestBallastGivenUp(t *testing.T) {
	var log bytes.Buffer
	b := newBallast(vfs.NewMem(), "", 1<<10, slog.New(slog.NewTextHandler(&log, nil)))
	if !b.make() || !b.release() || b.release() {
		t.Error("the ballast is not given up once")
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, `level=WARN msg="`+diskFull+"\"\n") {
		t.Errorf("the log says:\n%s", text)
	}
}
