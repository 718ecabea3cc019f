// Package pebblestore keeps jobs in a Pebble database.
//
// It is a store.Store. An acknowledged change has reached the operating system, so that only a power cut can
// take it, and only as long as Usage shows in SyncLag. With FlushInterval 0 acknowledged jobs and ends are on disk.
// A full disk refuses new jobs with store.ErrFull and lets accepted ones go on as long as the ballast
// lasts; it never ends the process. Any other failed write of the log stops all changes until the store
// is opened again, and what was acknowledged is then still there. DESIGN.md has the layout of the keys
// and the reasons.
//
// It does not move data between formats: data of a newer version is refused with store.ErrVersion.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

var _ store.Store = (*Store)(nil)

// Options are how a store is opened. Dir is required; everything else has a usable zero.
type Options struct {
	Dir string // is made if it does not exist
	// FS is the file system; nil means that of the operating system.
	FS vfs.FS
	// FlushInterval is how long an acknowledged change may wait for the disk. With 0 what somebody is told of is on
	// disk first. A longer one saves syncs and lets a power cut take more.
	FlushInterval time.Duration
	// SyncInterval bounds how long a group commit waits for company when FlushInterval is 0 and many
	// callers wait; it is never more than 2 ms. A longer one saves syncs and adds latency under load; 0
	// never waits.
	SyncInterval time.Duration
	// CacheBytes is the memory for what was read from disk; 0 means 64 MiB.
	CacheBytes int64
	// Ledger enters each job that ends into the store's ledger.
	Ledger     bool
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil keeps no metrics
}

const defaultCache = 64 << 20

// Store is an open database. All changes go through its committer, in one order; reads go to Pebble
// directly. Every change to a job is made under a claim on its id, so that what was read for it still
// holds when it is applied.
type Store struct {
	db        *pebble.DB
	codec     codec
	volume    *volume
	logs      *logs
	committer *committer
	filter    *keyFilter
	keys      *claims[job.KeyHash]
	jobs      *claims[job.ID]
	attempts  *attempts
	offers    *offers
	waiting   *places // of calls that wait
	owed      *places // of deliveries that wait
	metrics   *metrics
	// unreadable records are left out of everything but what asks for them.
	unreadable *unreadable
	changes    sync.Pool // of *change

	// closing is closed when Close begins; what waits then gives up. ended is closed when Pebble is.
	closing, ended chan struct{}
	// reads has inside whoever touches db outside the committer: Pebble does not survive a read after
	// it is closed.
	reads     *gate
	ledger    ledger
	reclaimer *reclaimer
	expiring  sync.Mutex // one step claims many jobs at a time, so that its claims cannot deadlock with another's
	closeOnce sync.Once
	closeErr  error

	readers    sync.WaitGroup // goroutines that use db
	background sync.WaitGroup // goroutines below Pebble

	usage usage
}

// Open opens the store in o.Dir, or makes an empty one. On a disk with no room at all it waits for
// some until ctx ends, and then returns store.ErrFull; ctx does not matter afterwards.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	records, err := newCodec()
	if err != nil {
		return nil, err
	}
	closing := make(chan struct{})
	s := &Store{
		codec: records, closing: closing, ended: make(chan struct{}), filter: newKeyFilter(),
		keys: newClaims[job.KeyHash](closing), jobs: newClaims[job.ID](closing),
		attempts: newAttempts(), offers: newOffers(), waiting: new(places), owed: new(places),
		reads: newGate(), unreadable: newUnreadable(o.Logger), ledger: ledger{keep: o.Ledger},
		reclaimer: newReclaimer(),
	}
	err = s.openVolume(ctx, o)
	if err == nil {
		err = s.openDatabase(ctx, o)
	}
	if err != nil {
		close(s.closing)
		close(s.ended)
		s.background.Wait()
		err = explain(o.FS, o.Dir, errors.Join(err, s.unlock()))
		return nil, fmt.Errorf("open store in %s: %w", o.Dir, err)
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.SyncInterval = min(o.SyncInterval, 2*time.Millisecond)
	return o
}

// openVolume gives up the ballast, which opening may need. A directory that does not exist yet is left to
// Pebble, which makes it durable too.
func (s *Store) openVolume(ctx context.Context, o Options) error {
	s.volume = &volume{
		FS: o.FS, logger: o.Logger, layers: newLayers(o.Logger), merging: newCompactions(), stalls: &stalls{logger: o.Logger},
		opening: ctx, closing: s.closing, ended: s.ended, failed: make(chan struct{}), broken: make(chan struct{}), dir: o.Dir,
	}
	if err := s.lock(o); err != nil {
		return err
	}
	s.logs = newLogs(o)
	s.volume.logs = s.logs
	s.volume.ballast = newBallast(o.FS, o.Dir, memtableBytes(o), o.Logger)
	if err := s.volume.ballast.clear(); err != nil {
		return err
	}
	s.background.Go(func() { s.logs.run(s.ended) })
	return nil
}

// lock takes the directory if it exists: what is in it must not be touched before. One that does not is
// locked by Pebble, when it has made it.
func (s *Store) lock(o Options) error {
	info, err := o.FS.Stat(o.Dir)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // Pebble will tell
	}
	s.volume.lock, err = pebble.LockDirectory(o.Dir, o.FS)
	return err
}

// unlock gives the directory back. Pebble must be closed.
func (s *Store) unlock() error {
	if s.volume.lock == nil {
		return nil
	}
	return s.volume.lock.Close()
}

// openDatabase opens Pebble, reads what is kept in memory and starts the goroutines.
func (s *Store) openDatabase(ctx context.Context, o Options) error {
	s.metrics = newMetrics(o.Registerer)
	var err error
	if s.db, err = openPebble(o, s.volume); err != nil {
		return err
	}
	s.volume.running.Store(true)
	s.committer = &committer{
		db: s.db, logs: s.logs, volume: s.volume, keys: s.filter, metrics: s.metrics,
		mergeBytes: int(memtableBytes(o) / 16),
	}
	err = errors.Join(s.checkVersion(), s.loadOrders())
	if err == nil {
		err = errors.Join(s.loadAttempts(), s.loadOffers(), s.loadLeft(), context.Cause(ctx), s.metrics.register(s))
	}
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.start()
	return nil
}

func (s *Store) start() {
	s.committer.rescue = s.rescue
	s.committer.start()
	s.logs.setDoubted(s.committer.wantRescue)
	if !s.volume.ballast.make() {
		s.volume.logger.Warn(diskFull)
		signal(s.volume.ballast.wake)
	}
	s.background.Go(func() { s.volume.ballast.watch(s.closing) })
	s.readers.Go(func() { s.volume.layers.watch(s.closing, s.countLayers) })
	s.readers.Go(s.fillFilter)
	signal(s.reclaimer.wake) // the last process may have left something
	s.readers.Go(s.reclaim)
}

// rescue flushes the memtable, after which the logs that could not be synced are not needed any more.
func (s *Store) rescue() {
	doubtful := s.logs.doubtful()
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		s.volume.fail(err)
		return
	}
	s.readers.Go(func() {
		select {
		case <-flushed:
			s.logs.forget(doubtful)
		case <-s.closing:
		}
	})
}

// Close is store.Upkeep.Close. Changes that were handed over before are made first, unless the disk is
// full: then they are refused with store.ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		closed := make(chan error, 1)
		go func() { closed <- s.closeDatabase() }()
		select {
		case s.closeErr = <-closed:
		case <-s.volume.broken: // who has broken it keeps its locks, and nobody can close it
		}
		close(s.ended)
		s.background.Wait()
		s.metrics.unregister()
		if err := s.volume.failure(); err != nil && !errors.Is(err, store.ErrClosed) {
			s.closeErr = errors.Join(err, s.closeErr)
		}
	})
	return s.closeErr
}

func (s *Store) closeDatabase() error {
	s.committer.stop()
	s.readers.Wait()
	s.reads.close()
	return errors.Join(s.db.Close(), s.unlock())
}

// read lets the caller touch the database until it calls the returned function.
func (s *Store) read(ctx context.Context) (func(), error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !s.reads.enter() {
		return nil, store.ErrClosed
	}
	return s.reads.out, nil
}

// Failed is closed when the store has failed: see store.ErrFailed. Close then returns why.
func (s *Store) Failed() <-chan struct{} { return s.volume.failed }

// Full reports whether the disk has no room for new jobs: Insert answers store.ErrFull. What was accepted
// goes on as long as it can.
func (s *Store) Full() bool { return s.volume.full() }

func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
