package pebblestore

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// The ballast is two files. The first is given up when a write finds the disk full: logs take two
	// memtables of it, room for many thousand ends of jobs, and leave one to the tables that give room
	// back. The second is given up at the start, which makes a table of every memtable that was waiting,
	// and one more for good measure.
	ballastWork = "BALLAST-WORK"
	ballastOpen = "BALLAST-OPEN"
	workTables  = 3
	openTables  = memtables + 2
	// ballastCheck is how often a store on a full disk looks for room.
	ballastCheck = time.Second
)

const (
	diskFull = "disk is full: new jobs are refused, accepted ones go on"
	diskRoom = "disk has room again: new jobs are taken"
)

// ballast is space that a full disk gives back, so that jobs which have been accepted can go on and end.
// While it is out the store takes no new jobs; it is made again as soon as there is room.
type ballast struct {
	fs     vfs.FS
	dir    string
	table  int64 // the size of a memtable, in bytes
	logger *slog.Logger
	out    atomic.Bool   // the disk is full
	wake   chan struct{} // of one: out has become true

	mu sync.Mutex // one at a time makes or removes the files
}

func newBallast(under vfs.FS, dir string, table int64, logger *slog.Logger) *ballast {
	b := &ballast{fs: under, dir: dir, table: table, logger: logger, wake: make(chan struct{}, 1)}
	b.out.Store(true)
	return b
}

// clear gives up all ballast, before the store is opened.
func (b *ballast) clear() error {
	return errors.Join(b.remove(ballastWork), b.remove(ballastOpen))
}

// release gives up the ballast. It reports whether that has made room just now.
func (b *ballast) release() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out.Load() {
		return false
	}
	b.out.Store(true)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	b.logger.Warn(diskFull)
	err := b.remove(ballastWork)
	if err != nil {
		b.logger.Error("ballast cannot be removed", "error", err)
	}
	return err == nil
}

// scarce reports whether so little is free that something must not take it.
//
// While the ballast is out nothing may keep compactions from giving room back, as nobody else may. Logs leave
// them the size of a memtable, and they leave some for the manifest, without which they could not end. What
// one takes meanwhile it gives back with its end, good or bad.
//
// An urgent compaction, without which writes are about to stop, may take as much: work still has the ballast.
// Any other leaves the reserve.
func (b *ballast) scarce(p purpose, urgent bool) bool {
	var left int64
	switch out := b.out.Load(); {
	case p == journal && out:
		left = b.table
	case p == compaction && (out || urgent):
		left = b.table / 8
	case p == compaction:
		left = b.reserve()
	default:
		return false
	}
	use, err := b.fs.GetDiskUsage(b.dir)
	return err == nil && use.AvailBytes < uint64(left)
}

// reserve is how much must be free before the ballast is made, and what compactions leave alone until
// then: the ballast and two memtables.
func (b *ballast) reserve() int64 { return (openTables + workTables + 2) * b.table }

// make takes the space. It reports whether the disk has room for it.
func (b *ballast) make() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.out.Load() {
		return true
	}
	if use, err := b.fs.GetDiskUsage(b.dir); err == nil && use.AvailBytes < uint64(b.reserve()) {
		return false
	}
	for name, tables := range map[string]int64{ballastOpen: openTables, ballastWork: workTables} {
		if err := b.fill(name, tables*b.table); err != nil {
			if err := errors.Join(b.remove(ballastWork), b.remove(ballastOpen)); err != nil {
				b.logger.Error("ballast cannot be removed", "error", err)
			}
			return false
		}
	}
	b.out.Store(false)
	return true
}

// fill makes one file. Space reserved is as good as space written; not every file system can reserve.
func (b *ballast) fill(name string, size int64) (err error) {
	f, err := b.fs.Create(b.fs.PathJoin(b.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = f.Preallocate(0, size)
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) {
		zeros := make([]byte, 64<<10)
		for left := size; left > 0 && err == nil; left -= int64(len(zeros)) {
			_, err = f.Write(zeros)
		}
	}
	return errors.Join(err, f.Sync())
}

func (b *ballast) remove(name string) error {
	err := b.fs.Remove(b.fs.PathJoin(b.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// watch makes the ballast again whenever it is out and there is room, until closing.
func (b *ballast) watch(closing <-chan struct{}) {
	for {
		select {
		case <-closing:
			return
		case <-b.wake:
		}
		for !b.make() {
			select {
			case <-closing:
				return
			case <-time.After(ballastCheck):
			}
		}
		b.logger.Info(diskRoom)
	}
}
