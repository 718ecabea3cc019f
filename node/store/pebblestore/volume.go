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

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	// fullPause is how long a write that found the disk full waits before it tries again.
	fullPause = 50 * time.Millisecond
	// tablePause is how long a write of a table waits before it reports failure. Pebble tries a failed
	// flush or compaction again at once, without a pause of its own.
	tablePause = time.Second
)

// volume is the file system below Pebble. It keeps from Pebble the errors that it does not survive.
//
// A full disk: the ballast is given up, and what does not fit waits until it does, except tables, whose
// failure Pebble takes back. Any other failed write of something but a table means that what Pebble
// believes and what the disk has are about to differ: the volume freezes. From then on it changes
// nothing on disk, makes new files in memory, tells Pebble that all went well, and the store refuses
// every change with the error. So reads go on, and the disk keeps what a crash at that moment would
// have left.
type volume struct {
	vfs.FS // the one below
	logger *slog.Logger
	logs   *logs // makes logs durable later; nil if at once
	// ballast is space held in reserve.
	ballast *ballast
	// opening bounds the opening: until running, errors reach Pebble, and a full disk does once opening
	// is over.
	opening context.Context
	running atomic.Bool
	closing <-chan struct{} // closed when nothing may wait any more

	frozen atomic.Bool // set, with err and limbo, once and for all
	mu     sync.Mutex  // guards err
	err    error
	limbo  *vfs.MemFS // takes what is created on a frozen volume
}

// full reports whether the disk is full: the ballast is out.
func (v *volume) full() bool { return v.ballast.out.Load() }

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
	v.err, v.limbo = fmt.Errorf("store has failed: %w", err), vfs.NewMem()
	v.frozen.Store(true)
	if !errors.Is(err, store.ErrClosed) {
		v.logger.Error("store has failed and takes no more changes until it is opened again", "error", err)
	}
}

// attempt runs one change of the file system until it has worked or is beyond hope. done is false if
// the volume is frozen; the operation then counts as done.
func (v *volume) attempt(table bool, op func() error) (done bool, err error) {
	for {
		if v.frozen.Load() {
			return false, nil
		}
		err := op()
		switch {
		case err == nil:
			return true, nil
		case isFull(err):
			if v.ballast.release() {
				continue
			}
			if err := v.wait(table, err); err != nil {
				return true, err
			}
		case table || !v.running.Load() || errors.Is(err, fs.ErrNotExist):
			return true, err
		default:
			v.fail(err)
		}
	}
}

// wait lets some time pass on a full disk. It returns full if the caller must live with it.
func (v *volume) wait(table bool, full error) error {
	if !v.running.Load() {
		select {
		case <-v.opening.Done():
			return full
		default:
		}
	}
	pause := fullPause
	if table {
		pause = tablePause
	}
	select {
	case <-time.After(pause):
	case <-v.closing:
		v.fail(store.ErrClosed)
	}
	if table {
		return full
	}
	return nil
}

// isFull reports whether the error says that there is no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// create runs one way of making a file.
func (v *volume) create(name string, category vfs.DiskWriteCategory, op func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	done, err := v.attempt(isTable(name), func() (err error) {
		file, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	if !done {
		return v.createInLimbo(name, category)
	}
	f := volumeFile{File: file, volume: v, table: isTable(name)}
	if v.logs != nil && isLog(name) {
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
	f, err := v.create(newname, category, func() (vfs.File, error) {
		return v.FS.ReuseForWrite(oldname, newname, category)
	})
	if err == nil && v.logs != nil {
		v.logs.retire(oldname)
	}
	return f, err
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
	_, err := v.attempt(false, func() error { return v.FS.Rename(oldname, newname) })
	return err
}

func (v *volume) MkdirAll(dir string, perm os.FileMode) error {
	_, err := v.attempt(false, func() error { return v.FS.MkdirAll(dir, perm) })
	return err
}

// Remove of something that is not there reports so, as Pebble expects; any other failure leaves a file
// behind, which does no harm.
func (v *volume) Remove(name string) error {
	if v.frozen.Load() {
		return nil
	}
	err := v.FS.Remove(name)
	if err == nil && v.logs != nil && isLog(name) {
		v.logs.retire(name)
	}
	return err
}

func (v *volume) Unwrap() vfs.FS { return v.FS }
