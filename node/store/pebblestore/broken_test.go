package pebblestore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// TestBrokenPebble: when Pebble gives up and keeps its locks, the store has failed, its closing does not
// wait for them, and what was wrong stands in the log and in the error.
func TestBrokenPebble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := Open(t.Context(), Options{Dir: "data", FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s.reads.enter() // stands for a lock that nobody gives back
		cause := errors.New("tables overlap")
		go func() {
			pebbleLogger{s.volume.logger, s.volume}.Fatalf("no way on: %v", cause)
			t.Error("Fatalf returns")
		}()
		<-s.Failed()
		j := &job.Job{ID: job.ID{1}, Request: job.Request{URL: "http://t.test", WebhookURL: "http://r.test"}}
		if _, err := s.Insert(t.Context(), j, store.Default); !errors.Is(err, store.ErrFailed) || !errors.Is(err, cause) {
			t.Errorf("insert: %v", err)
		}
		err = s.Close()
		if !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), "pebble gave up: no way on: tables overlap") {
			t.Errorf("close: %v", err)
		}
		if !strings.Contains(log.String(), "pebble gave up: no way on: tables overlap") {
			t.Errorf("log:\n%s", &log)
		}
		s.reads.leave()
	})
}
