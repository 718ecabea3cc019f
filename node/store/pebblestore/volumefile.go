package pebblestore

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// volumeFile is a file or directory on a volume. When the volume freezes, a table that is being written
// fails, so that Pebble writes it again; everything else seems to go well.
type volumeFile struct {
	vfs.File
	volume  *volume
	purpose purpose
}

func (f *volumeFile) Write(p []byte) (int, error) {
	written := 0
	done, err := f.volume.attempt(f.purpose, func() error {
		if f.mustLeave() {
			return syscall.ENOSPC
		}
		n, err := f.File.Write(p[written:])
		written += n
		return err
	})
	if !done {
		return len(p), f.frozen()
	}
	return written, err
}

func (f *volumeFile) WriteAt(p []byte, at int64) (int, error) {
	written := 0
	done, err := f.volume.attempt(f.purpose, func() error {
		if f.mustLeave() {
			return syscall.ENOSPC
		}
		n, err := f.File.WriteAt(p[written:], at+int64(written))
		written += n
		return err
	})
	if !done {
		return len(p), f.frozen()
	}
	return written, err
}

// mustLeave reports whether what is left on a full disk is for others. On any other a table was asked for when
// it was made, and asking again at every write would cost too much.
func (f *volumeFile) mustLeave() bool {
	return f.volume.running.Load() && f.volume.ballast.out.Load() && f.volume.scarce(f.purpose)
}

func (f *volumeFile) Sync() error { return f.sync(f.File.Sync) }

func (f *volumeFile) SyncData() error { return f.sync(f.File.SyncData) }

// sync makes the file durable. A failed sync is not tried again: the next one would succeed although
// what the first one should have written is lost (https://lwn.net/Articles/752063).
func (f *volumeFile) sync(op func() error) error {
	if f.volume.frozen.Load() {
		return f.frozen()
	}
	err := op()
	switch {
	case err == nil || !f.volume.running.Load():
		return err
	case f.purpose.table():
		f.volume.refuse(f.purpose, isFull(err))
		return err
	}
	f.volume.fail(err)
	return nil
}

func (f *volumeFile) SyncTo(length int64) (bool, error) {
	if f.volume.frozen.Load() {
		return false, nil
	}
	return f.File.SyncTo(length)
}

func (f *volumeFile) frozen() error {
	if f.purpose.table() {
		return f.volume.failure()
	}
	return nil
}
