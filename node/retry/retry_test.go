package retry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/alarm"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/retry"
)

var (
	errDisk = errors.New("the disk is on fire")
	errGone = errors.New("gone")
)

func newRetrier(log *bytes.Buffer) *retry.Retrier {
	return retry.New(retry.Config{
		Limit: 4 * time.Second, Final: func(err error) bool { return errors.Is(err, errGone) },
		Alarm: alarm.New(slog.New(slog.NewTextHandler(log, nil)), "not recorded"),
	})
}

func TestDoUntilItIsDone(t *testing.T) {
	for name, tt := range map[string]struct {
		failures int
		last     error
		took     time.Duration // without jitter
	}{
		"at once":              {0, nil, 0},
		"final at once":        {0, errGone, 0},
		"after some failures":  {2, nil, 3 * time.Second},
		"final in the end":     {3, errGone, 7 * time.Second},
		"the wait has a bound": {10, nil, (1 + 2 + 8*4) * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				tries, start := 0, time.Now()
				err := newRetrier(&log).Do(t.Context(), "begin", job.ID{1}, func() error {
					if tries++; tries <= tt.failures {
						return errDisk
					}
					return tt.last
				})
				if !errors.Is(err, tt.last) || tries != tt.failures+1 {
					t.Errorf("%v after %d tries, want %v after %d", err, tries, tt.last, tt.failures+1)
				}
				if took := time.Since(start); took < tt.took || took > tt.took*11/10 {
					t.Errorf("took %v, want %v and up to a tenth more", took, tt.took)
				}
				line := "step=begin job_id=" + job.ID{1}.String() + ` error="the disk is on fire"`
				if n := strings.Count(log.String(), line); n != tt.failures {
					t.Errorf("%d lines for %d failures: %s", n, tt.failures, &log)
				}
			})
		})
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start, tries := time.Now(), 0
		for want := 1; want <= 2; want++ { // the second time it has ended before
			err := newRetrier(&log).Do(ctx, "begin", job.ID{1}, func() error {
				tries++
				return errDisk
			})
			if !errors.Is(err, errDisk) || tries != want || time.Since(start) != 500*time.Millisecond {
				t.Errorf("%v after %d tries and %v", err, tries, time.Since(start))
			}
		}
	})
}
