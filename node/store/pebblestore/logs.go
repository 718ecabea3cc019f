package pebblestore

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// logs makes write-ahead logs durable. Its files answer a sync as soon as what was written has reached
// the operating system, where it survives the death of the process; run does the real sync, for all who
// wait at once, or at the latest one interval after the first write that is waiting for it.
//
// A log whose sync has failed once vouches for nothing (https://lwn.net/Articles/752063). A strict
// store, which promises the disk, fails then; for any other the log counts as unsynced
// until its content stands in tables.
type logs struct {
	interval time.Duration // for what nobody waits for
	group    time.Duration // at most, for company of those who wait
	strict   bool
	logger   *slog.Logger
	wake     chan struct{} // of one: there is something to sync
	urgent   chan struct{} // of one: somebody waits

	served int // waiters of the round before; owned by run

	// mu guards all below. It is never held during a sync.
	mu sync.Mutex
	// doubted asks the store to flush, so that doubtful logs can be forgotten. It must not block.
	doubted func()
	dirty   map[*logFile]struct{} // with something written and not synced, open or closed
	waiters []*change             // written, and to be answered when they are durable
	ended   bool                  // run has returned
}

// strictInterval is how long a strict store leaves unsynced what nobody waits for, when no new job comes.
const strictInterval = 5 * time.Millisecond

func newLogs(o Options) *logs {
	l := &logs{
		interval: o.FlushInterval, group: o.SyncInterval, strict: o.FlushInterval == 0,
		logger: o.Logger, doubted: func() {},
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		dirty: make(map[*logFile]struct{}),
	}
	if l.strict {
		l.interval = strictInterval
	}
	return l
}

func (l *logs) setDoubted(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted = f
}

// logFile is a write-ahead log. Pebble writes and closes it from one goroutine at a time.
type logFile struct {
	volumeFile
	logs *logs
	name string
	// io lets the syncs of run and the closing by Pebble follow each other. It guards closed.
	io     sync.Mutex
	closed bool // and synced before, if that was possible

	// Guarded by logs.mu: when the oldest write came that no sync has covered, and the oldest that a
	// sync now running covers; zero if there is none.
	since, syncing time.Time
	began          time.Time // the sync that covers syncing
	doubtful       bool
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.volumeFile.Write(p)
	f.logs.wrote(f)
	return n, err
}

// Sync answers at once: what was written has reached the operating system.
func (f *logFile) Sync() error { return nil }

// SyncData answers at once, as Sync does.
func (f *logFile) SyncData() error { return nil }

// SyncTo answers at once and promises nothing.
func (f *logFile) SyncTo(int64) (bool, error) { return false, nil }

// Close really syncs: Pebble takes a log that has a successor for whole.
func (f *logFile) Close() error {
	if err := f.logs.sync(f); err != nil {
		f.volume.logger.Debug("log is closed unsynced", "log", f.name, "error", err)
	}
	f.io.Lock()
	defer f.io.Unlock()
	f.closed = true
	return f.File.Close()
}

func (l *logs) wrote(f *logFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !f.since.IsZero() {
		return
	}
	f.since = time.Now()
	l.dirty[f] = struct{}{}
	signal(l.wake)
}

// sync makes one log durable, or doubtful.
func (l *logs) sync(f *logFile) error {
	f.io.Lock()
	defer f.io.Unlock()
	if f.closed && !f.isDoubtful() {
		return nil // since the caller chose it, it was synced and closed
	}
	l.mu.Lock()
	if f.syncing.IsZero() {
		f.syncing, f.began = f.since, time.Now()
	}
	f.since = time.Time{}
	l.mu.Unlock()

	err := f.failure()
	if err == nil {
		err = f.File.SyncData()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.strict {
		f.volume.fail(err)
		return f.volume.failure()
	}
	if errors.Is(err, store.ErrClosed) {
		return err // nothing has failed: the store was closed on a full disk, and what waited was refused
	}
	if err != nil {
		if !f.doubtful {
			f.doubtful = true
			l.logger.Error("log sync failed: the newest changes would not survive a power cut", "error", err)
			l.doubted()
		}
		return err
	}
	f.syncing = time.Time{}
	if f.since.IsZero() {
		delete(l.dirty, f)
	}
	return nil
}

var errDoubtful = errors.New("an earlier sync of the log has failed")

// failure returns why a sync of the log would be in vain. The caller holds io.
func (f *logFile) failure() error {
	f.logs.mu.Lock()
	defer f.logs.mu.Unlock()
	if f.doubtful {
		return errDoubtful
	}
	return f.volume.failure()
}

func (f *logFile) isDoubtful() bool {
	f.logs.mu.Lock()
	defer f.logs.mu.Unlock()
	return f.doubtful
}

// doubtful returns the logs whose sync has failed.
func (l *logs) doubtful() []*logFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*logFile
	for f := range l.dirty {
		if f.doubtful {
			list = append(list, f)
		}
	}
	return list
}

// forget drops logs that are needed no more.
func (l *logs) forget(files []*logFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range files {
		delete(l.dirty, f)
	}
}

// run syncs what is dirty until stop, and once more then.
func (l *logs) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			l.end()
			return
		case <-l.urgent:
			l.gather(stop)
		case <-l.wake:
			select {
			case <-stop:
			case <-l.urgent:
				l.gather(stop)
			case <-time.After(l.interval):
			}
		}
		l.round()
	}
}

// gather lets more callers join the next sync.
func (l *logs) gather(stop <-chan struct{}) {
	l.mu.Lock()
	n := len(l.waiters)
	l.mu.Unlock()
	d := company(max(n, l.served), l.group)
	if d == 0 {
		return
	}
	select {
	case <-stop:
	case <-time.After(d):
	}
}

// company is how long a sync should wait so that more callers share it: not at all when few wait, up to
// limit when many do. Each of the n that wait, or did at the sync before, adds 16 µs, about a seventh of
// what a sync costs in processor time.
func company(n int, limit time.Duration) time.Duration {
	const few, share = 8, 16 * time.Microsecond
	if n <= few {
		return 0
	}
	return min(limit, time.Duration(n)*share)
}

func (l *logs) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.round()
}

// round syncs every dirty log once, and answers those who waited for it.
func (l *logs) round() {
	l.mu.Lock()
	waiters := l.waiters
	l.waiters, l.served = nil, len(waiters)
	files := make([]*logFile, 0, len(l.dirty))
	for f := range l.dirty {
		files = append(files, f)
	}
	l.mu.Unlock()

	var failed error
	for _, f := range files {
		if err := l.sync(f); err != nil {
			failed = err
		}
	}
	for _, c := range waiters {
		c.answer(failed)
	}
}

// await answers the changes, which are written, when they are durable.
func (l *logs) await(changes []*change) {
	if len(changes) == 0 {
		return
	}
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.waiters = append(l.waiters, changes...)
	}
	l.mu.Unlock()
	if !ended {
		signal(l.urgent)
		return
	}
	for _, c := range changes {
		c.answer(store.ErrClosed)
	}
}

// lag is how long the oldest write has been waiting for its sync.
func (l *logs) lag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lag time.Duration
	for f := range l.dirty {
		for _, t := range [...]time.Time{f.since, f.syncing} {
			if !t.IsZero() {
				lag = max(lag, now.Sub(t))
			}
		}
	}
	return lag
}

// diskLag is the part of lag that is the disk's. What waits before its sync begins does so for the process, which the system
// may have stopped: that counts as no more than the usual interval.
func (l *logs) diskLag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lag time.Duration
	for f := range l.dirty {
		if !f.since.IsZero() {
			lag = max(lag, min(now.Sub(f.since), l.interval))
		}
		if !f.syncing.IsZero() {
			lag = max(lag, now.Sub(f.began)+min(f.began.Sub(f.syncing), l.interval))
		}
	}
	return lag
}

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
