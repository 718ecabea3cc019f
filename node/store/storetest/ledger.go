package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// ledger is the ledger of a disk.
type ledger struct {
	keep    bool // jobs that end are entered
	entries []job.LedgerEntry
	cut     int // how many of them are the batch that is being flushed
	flushed map[job.ID]bool
}

// OpenLedger is the Opener of the store in memory that keeps a ledger.
func OpenLedger(t *testing.T) func() (store.Store, error) {
	d := NewDisk(t)
	d.KeepLedger()
	return d.Open
}

// KeepLedger enters each job that ends from now on into the ledger.
func (d *Disk) KeepLedger() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger.keep, d.ledger.flushed = true, make(map[job.ID]bool)
}

// enter puts a job that ends into the ledger if the disk keeps one.
func (m *memory) enter(r *record, sequence job.Order) {
	if l := &m.disk.ledger; l.keep && !r.job.Void(r.state.Phase()) {
		l.entries = append(l.entries, job.NewLedgerEntry(r.job, r.state, sequence))
		m.entered.Add(1)
	}
}

// remove forgets a job.
func (d *Disk) remove(id job.ID) {
	key := d.jobs[id].key
	delete(d.jobs, id)
	delete(d.ledger.flushed, id)
	if d.keys[key] == id {
		delete(d.keys, key)
	}
}

// retire removes a job that has ended. Whoever handed it over here may still ask for it.
func (d *Disk) retire(r *record) {
	d.remove(r.job.ID)
	if r.job.Moves > 0 {
		d.left[r.job.ID] = departure{moves: r.job.Moves, at: time.Now()}
	}
}

func (m *memory) Ledgered() uint64 { return m.entered.Load() }

func (m *memory) LedgerBatch(ctx context.Context, limit int) (list []job.LedgerEntry, err error) {
	err = m.change(ctx, "LedgerBatch", func(d *Disk) (func(), error) {
		n := d.ledger.cut
		if n == 0 {
			n = min(limit, len(d.ledger.entries))
		}
		list = slices.Clone(d.ledger.entries[:n])
		return func() { d.ledger.cut = n }, nil
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list, nil
}

func (m *memory) LedgerFlushed(ctx context.Context, last job.Order) error {
	return m.change(ctx, "LedgerFlushed", func(d *Disk) (func(), error) {
		l := &d.ledger
		if l.cut == 0 || l.entries[l.cut-1].Sequence != last {
			return nil, store.ErrStale
		}
		return func() {
			for _, e := range l.entries[:l.cut] {
				if d.jobs[e.ID] != nil {
					l.flushed[e.ID] = true
				}
			}
			l.entries, l.cut = slices.Clone(l.entries[l.cut:]), 0
		}, nil
	})
}

func (m *memory) ClearFlushed(ctx context.Context) (n int, err error) {
	err = m.change(ctx, "ClearFlushed", func(d *Disk) (func(), error) {
		return func() {
			for id := range d.ledger.flushed {
				if r := d.jobs[id]; r.webhook.State.Settled() {
					n++
					d.retire(r)
				}
			}
		}, nil
	})
	return n, err
}
