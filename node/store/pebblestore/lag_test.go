package pebblestore

import (
	"testing"
	"time"
)

// What waits only because the process was stopped is lag, for a power cut would take it, but none of the disk's.
func TestDiskLag(t *testing.T) {
	const interval, stopped = 100 * time.Millisecond, 3 * time.Second
	now := time.Now()
	at := now.Add(-stopped)
	for name, tt := range map[string]struct {
		file *logFile
		want time.Duration
	}{
		"no sync has begun":       {&logFile{since: at}, interval},
		"that is how it goes":     {&logFile{since: now.Add(-interval / 2)}, interval / 2},
		"a sync has just begun":   {&logFile{syncing: at, began: now}, interval},
		"a sync takes long":       {&logFile{syncing: at, began: at}, stopped},
		"a sync has failed":       {&logFile{syncing: at, began: at, since: now, doubtful: true}, stopped},
		"more has come meanwhile": {&logFile{syncing: at, began: at, since: at.Add(time.Second)}, stopped},
	} {
		l := newLogs(Options{FlushInterval: interval})
		l.dirty[tt.file] = struct{}{}
		if lag, disk := l.lag(now), l.diskLag(now); lag != now.Sub(oldest(tt.file)) || disk != tt.want {
			t.Errorf("%s: lag of %v, of the disk %v, want %v", name, lag, disk, tt.want)
		}
	}
}

// oldest is when the oldest write came that is on no disk.
func oldest(f *logFile) time.Time {
	if f.syncing.IsZero() {
		return f.since
	}
	return f.syncing
}
