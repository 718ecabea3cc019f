package pebblestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowDisk is how long a write or a sync may take before it is worth a line in the log: as long as an
// accepted change may wait for the disk before intake closes, unless that is configured otherwise.
const slowDisk = time.Second

// timedFile is a file that tells when the disk is slow. What never returns shows in the sync lag instead.
type timedFile struct {
	vfs.File
	volume *volume
}

func (f *timedFile) Write(p []byte) (n int, err error) {
	defer f.volume.timed("write")()
	return f.File.Write(p)
}

func (f *timedFile) WriteAt(p []byte, at int64) (n int, err error) {
	defer f.volume.timed("write")()
	return f.File.WriteAt(p, at)
}

func (f *timedFile) Sync() error {
	defer f.volume.timed("sync")()
	return f.File.Sync()
}

func (f *timedFile) SyncData() error {
	defer f.volume.timed("sync")()
	return f.File.SyncData()
}

// timed measures what ends when the returned function is called.
func (v *volume) timed(op string) (end func()) {
	start := time.Now()
	return func() {
		took := time.Since(start)
		if took < slowDisk {
			return
		}
		v.slow.Add(1)
		if kept, ok := v.slowly.may(); ok {
			v.logger.Warn("disk is slow", "operation", op, "took", took.String(), "more_before", kept)
		}
	}
}
