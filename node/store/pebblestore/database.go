package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// formatVersion is the version of the layout: keys, records and what must be there together.
const formatVersion = 1

// pebbleFormat is the newest format whose logs do not say how far they were synced: they would say more than
// is true, and a power cut would look like corruption.
const pebbleFormat = pebble.FormatColumnarBlocks

const (
	maxMemtable = 16 << 20 // halves the cost of a write against 4 MiB, and 64 MiB wins no more
	minMemtable = 1 << 20
	memtables   = 3 // that may wait to become tables before writes do
)

// memtableBytes fits the memtable to the volume: a memtable, its logs and the ballast together take
// about an eighth of a small one.
func memtableBytes(o Options) int64 {
	use, err := o.FS.GetDiskUsage(parent(o))
	if err != nil {
		return maxMemtable
	}
	return min(max(int64(use.TotalBytes/64), minMemtable), maxMemtable)
}

// parent is a directory that exists on the volume before the store does.
func parent(o Options) string {
	dir := o.Dir
	for {
		if _, err := o.FS.Stat(dir); err == nil || o.FS.PathDir(dir) == dir {
			return dir
		}
		dir = o.FS.PathDir(dir)
	}
}

// openPebble opens the database. A failure from which Pebble sees no way on is an error here.
func openPebble(o Options, v *volume) (db *pebble.DB, err error) {
	logger := pebbleLogger{o.Logger, v}
	opts := &pebble.Options{
		FS:                          v,
		Lock:                        v.lock,
		Logger:                      logger,
		CacheSize:                   o.CacheBytes,
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                uint64(memtableBytes(o)),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       2 * layersMerge, // Pebble counts each layer twice
		L0StopWritesThreshold:       layersStop,
		MaxManifestFileSize:         4 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		EventListener: &pebble.EventListener{
			WriteStallBegin: v.stalls.begin,
			WriteStallEnd:   v.stalls.end,
			BackgroundError: func(err error) { logger.Errorf("background: %v", err) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { logger.Errorf("corruption: %v", info) },
		},
	}
	opts.Experimental.CompactionScheduler = v.merging
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			db, err = nil, p
		default:
			db, err = nil, fatalError{text: fmt.Sprint(p)}
		}
	}()
	if db, err = pebble.Open(o.Dir, opts); err != nil {
		return nil, err
	}
	if found := db.FormatMajorVersion(); found > pebbleFormat {
		err = fmt.Errorf("%w: Pebble's format is %d, this program knows up to %d", store.ErrVersion, found, pebbleFormat)
		return nil, errors.Join(err, db.Close())
	}
	v.merging.start()
	return db, nil
}

// pebbleLogger passes on what Pebble has to say. Its running commentary is for the debug level.
type pebbleLogger struct {
	log    *slog.Logger
	volume *volume
}

func (l pebbleLogger) Infof(format string, args ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble reports an error", "detail", fmt.Sprintf(format, args...))
}

// Fatalf must not return: Pebble relies on it. The volume keeps errors of the disk from Pebble, so what
// is left is a broken invariant, after which going on could destroy data. The store has failed then, and the
// caller, who may hold locks of Pebble's, ends when it is closed: a panic would wait for them, and its text
// would be lost.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	fatal := fatalError{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if err, ok := a.(error); ok {
			fatal.cause = err
		}
	}
	l.log.Error("store is broken", "error", fatal)
	if !l.volume.running.Load() {
		panic(fatal) //nolint:forbidigo // openPebble makes an error of it
	}
	l.volume.breakDown(fatal)
	<-l.volume.ended
	runtime.Goexit()
}

// fatalError is why Pebble gave up.
type fatalError struct {
	text  string
	cause error // nil if unknown
}

func (e fatalError) Error() string { return "pebble gave up: " + e.text }
func (e fatalError) Unwrap() error { return e.cause }

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

func setMeta(b *pebble.Batch, name string, value uint64) error {
	return b.Set(metaKey(name), binary.AppendUvarint(nil, value), nil)
}

// meta reads a number; 0 if it was never written.
func (s *Store) meta(name string) (uint64, error) {
	value, closer, err := s.db.Get(metaKey(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = closer.Close() }()
	n, size := binary.Uvarint(value)
	if size <= 0 {
		return 0, s.unreadable.note(metaKey(name), fmt.Errorf("%w: no number in %q", errMalformed, name))
	}
	return n, nil
}

// checkVersion refuses data of another format, and marks an empty store with this one.
func (s *Store) checkVersion() error {
	found, err := s.meta(metaVersion)
	switch {
	case err != nil:
		return err
	case found > formatVersion:
		return fmt.Errorf("%w: the data has version %d, this program knows up to %d",
			store.ErrVersion, found, formatVersion)
	case found == formatVersion:
		return nil
	}
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	if err := setMeta(b, metaVersion, formatVersion); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

// loadOrders makes all new orders higher than all that were ever given.
func (s *Store) loadOrders() error {
	taken, err := s.meta(metaOrders)
	s.committer.next, s.committer.reserved = job.Order(taken)+1, job.Order(taken)
	return err
}
