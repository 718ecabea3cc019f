package alarm_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/alarm"
)

func TestAlarmIsHeardOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := alarm.New(slog.New(slog.NewTextHandler(&log, nil)), "disk on fire")
		for range 25 { // for 2.5 s
			a.Raise(t.Context(), errors.New("ENOSPC"), "step", "begin")
			time.Sleep(100 * time.Millisecond)
		}
		const line = `level=ERROR msg="disk on fire" step=begin error=ENOSPC more_before=`
		if got := log.String(); strings.Count(got, line) != 3 || strings.Count(got, line+"9") != 2 {
			t.Errorf("want 3 lines that count:\n%s", got)
		}
	})
}

func TestAlarmOfManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := alarm.New(slog.New(slog.NewTextHandler(&log, nil)), "disk on fire")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { a.Raise(t.Context(), errors.New("ENOSPC")) })
		}
		all.Wait()
		time.Sleep(alarm.Interval)
		a.Raise(t.Context(), errors.New("ENOSPC"))
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "more_before=99") {
			t.Errorf("want 2 lines, the second one after 99 more:\n%s", got)
		}
	})
}
