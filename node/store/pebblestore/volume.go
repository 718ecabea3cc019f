package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// lockName is the file that Pebble makes first and keeps as long as it is open.
const lockName = "LOCK"

const (
	// fullPause is how long a write that found the disk full waits before it tries again.
	fullPause = 50 * time.Millisecond
	// tablePause is how long the failure of a table is kept back. Pebble tries a failed flush or
	// compaction again at once, without a pause of its own.
	tablePause = time.Second
	// compactionPause is for how long no other compaction follows one that has found no room.
	compactionPause = 10 * time.Second
)

// volume is the file system below Pebble. It keeps from Pebble the errors that it does not survive.
//
// A full disk: the ballast is given up, and what does not fit waits until it does. Tables are the
// exception, as Pebble takes back a failed one: a flush is told after a pause that it has failed, and a
// compaction, which can wait, has no claim on the ballast and must leave the last of the disk. Any other
// failed write of something but a table means that what Pebble believes and what the disk has are about
// to differ: the volume freezes, as it does when its directory is gone. From then on it changes nothing
// on disk, makes new files in memory, tells Pebble that all went well, and the store refuses every
// change with the error. So reads go on, and the disk keeps what a crash at that moment would have left.
type volume struct {
	vfs.FS // the one below
	logger *slog.Logger
	logs   *logs // makes logs durable
	// ballast is space held in reserve, layers what piles up while compactions find no room.
	ballast *ballast
	layers  *layers
	merging *compactions
	slow    atomic.Int64 // writes and syncs that have taken longer than slowDisk
	slowly  seldom       // says so
	stalls  *stalls
	// opening bounds the opening: until running, errors reach Pebble, and a full disk does once opening
	// is over.
	opening context.Context
	running atomic.Bool
	closing <-chan struct{} // closed when nothing may wait any more
	ended   <-chan struct{} // closed when Pebble is
	dir     string
	lock    *pebble.Lock // on dir; nil if Pebble makes it
	stuck   atomic.Int64 // writes that wait for room

	frozen atomic.Bool   // set, with err and limbo, once and for all
	failed chan struct{} // closed then
	broken chan struct{} // closed when Pebble itself has given up
	mu     sync.Mutex    // guards err, and closing broken
	err    error
	limbo  *vfs.MemFS // takes what is created on a frozen volume
}

// full reports whether the disk has no room for new work: the ballast is out, or not even that was
// enough, or so little is left that tables pile up.
func (v *volume) full() bool {
	return v.ballast.out.Load() || v.stuck.Load() > 0 || v.layers.high.Load()
}

// failure returns why the store can no longer change; nil if it can.
func (v *volume) failure() error {
	if !v.frozen.Load() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// fail freezes the volume.
func (v *volume) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return
	}
	v.err, v.limbo = fmt.Errorf("%w: %w", store.ErrFailed, err), vfs.NewMem()
	v.frozen.Store(true)
	close(v.failed)
	if !errors.Is(err, store.ErrClosed) {
		v.logger.Error("store has failed and takes no more changes until it is opened again", "error", err)
	}
}

// breakDown freezes the volume of a Pebble that has given up.
func (v *volume) breakDown(err error) {
	v.fail(err)
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.broken:
	default:
		close(v.broken)
	}
}

// missing freezes the volume if its directory was taken away: what is written there now is lost, but to
// files that are open there is still no error.
func (v *volume) missing() bool {
	_, err := v.FS.Stat(v.PathJoin(v.dir, lockName))
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	v.fail(fmt.Errorf("%s was removed or replaced while it was in use: put it back, or start with an empty one", v.dir))
	return true
}

// purpose is what a file is for.
type purpose uint8

const (
	vital      purpose = iota // manifests and the like: Pebble does not survive that one fails
	journal                   // a log; neither that
	flush                     // a table made of a memtable; until it is there, the log is needed
	compaction                // a table made of tables
)

func purposeOf(name string, category vfs.DiskWriteCategory) purpose {
	switch {
	case isLog(name):
		return journal
	case !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob"):
		return vital
	case category == "pebble-compaction":
		return compaction
	default:
		return flush
	}
}

// table reports whether Pebble survives that a file of this purpose fails.
func (p purpose) table() bool { return p == flush || p == compaction }

// attempt runs one change of the file system until it has worked or is beyond hope. done is false if
// the volume is frozen; the operation then counts as done.
func (v *volume) attempt(p purpose, op func() error) (done bool, err error) {
	for !v.frozen.Load() {
		err := op()
		full := isFull(err)
		switch {
		case err == nil:
			return true, nil
		case full && p != compaction && v.ballast.release():
		case !v.running.Load():
			if !full || p == compaction || v.opening.Err() != nil {
				return true, err
			}
			v.waitForRoom(fullPause)
		case errors.Is(err, fs.ErrNotExist) && v.missing():
		case p.table():
			v.refuse(p, full)
			return true, err
		case full:
			v.waitForRoom(fullPause)
		case errors.Is(err, fs.ErrNotExist):
			return true, err
		default:
			v.fail(err)
		}
	}
	return false, nil
}

// scarce reports whether what is free must be left to others.
func (v *volume) scarce(p purpose) bool { return v.ballast.scarce(p, v.layers.high.Load()) }

// refuse passes the time before Pebble is told that a table cannot be written.
func (v *volume) refuse(p purpose, full bool) {
	switch {
	case full && p == compaction:
		v.layers.refused()
		v.merging.rest(compactionPause) // not here: what it has written must go first
	case full:
		v.waitForRoom(tablePause)
	default:
		v.pause(tablePause)
	}
}

// waitForRoom passes some time on a full disk.
func (v *volume) waitForRoom(d time.Duration) {
	v.stuck.Add(1)
	defer v.stuck.Add(-1)
	v.pause(d)
}

// pause passes time. When the store closes it freezes the volume, so that whatever cannot be written
// holds the closing up no longer.
func (v *volume) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-v.closing:
		v.fail(store.ErrClosed)
	}
}

// isFull reports whether the error says that there is no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// create runs one way of making a file.
func (v *volume) create(name string, category vfs.DiskWriteCategory, op func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	p := purposeOf(name, category)
	done, err := v.attempt(p, func() (err error) {
		if p == compaction && v.scarce(p) {
			return syscall.ENOSPC
		}
		file, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	if !done {
		return v.createInLimbo(name, category)
	}
	f := volumeFile{File: &timedFile{File: file, volume: v}, volume: v, purpose: p}
	if isLog(name) {
		return &logFile{volumeFile: f, logs: v.logs, name: name}, nil
	}
	return &f, nil
}

func (v *volume) createInLimbo(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := v.limbo.MkdirAll(v.limbo.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return v.limbo.Create(name, category)
}

func (v *volume) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return v.create(name, category, func() (vfs.File, error) { return v.FS.Create(name, category) })
}

func (v *volume) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return v.create(newname, category, func() (vfs.File, error) {
		return v.FS.ReuseForWrite(oldname, newname, category)
	})
}

func (v *volume) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return v.create(name, category, func() (vfs.File, error) { return v.FS.OpenReadWrite(name, category, opts...) })
}

func (v *volume) OpenDir(name string) (vfs.File, error) {
	f, err := v.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &volumeFile{File: f, volume: v}, nil
}

func (v *volume) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if v.frozen.Load() {
		if f, err := v.limbo.Open(name, opts...); err == nil {
			return f, nil
		}
	}
	return v.FS.Open(name, opts...)
}

func (v *volume) Stat(name string) (vfs.FileInfo, error) {
	if v.frozen.Load() {
		if info, err := v.limbo.Stat(name); err == nil {
			return info, nil
		}
	}
	return v.FS.Stat(name)
}

func (v *volume) Rename(oldname, newname string) error {
	_, err := v.attempt(vital, func() error { return v.FS.Rename(oldname, newname) })
	return err
}

func (v *volume) MkdirAll(dir string, perm os.FileMode) error {
	_, err := v.attempt(vital, func() error { return v.FS.MkdirAll(dir, perm) })
	return err
}

// Remove of something that is not there reports so, as Pebble expects; any other failure leaves a file
// behind, which does no harm.
func (v *volume) Remove(name string) error {
	if v.frozen.Load() {
		return nil
	}
	return v.FS.Remove(name)
}

func (v *volume) Unwrap() vfs.FS { return v.FS }
