package pebblestore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// fillSlowly adds jobs until the disk is full, with time to notice that.
func (v *volume64) fillSlowly() {
	v.t.Helper()
	for range 2000 {
		switch err := v.insert(v.t.Context()); {
		case errors.Is(err, store.ErrFull):
			return
		case err != nil:
			v.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	v.t.Fatal("the disk does not get full")
}

// finish takes every accepted job to its end, as long as that may take.
func (v *volume64) finish() {
	v.t.Helper()
	for i, j := range v.jobs {
		ctx, cancel := context.WithTimeout(v.t.Context(), 10*time.Minute)
		err := v.life(ctx, j)
		cancel()
		if err != nil {
			v.t.Fatalf("accepted job %d of %d cannot go on: %v", i, len(v.jobs), err)
		}
	}
}

// expire removes every job, when its time is over.
func (v *volume64) expire() {
	v.t.Helper()
	time.Sleep(31 * time.Minute)
	removed, err := v.s.Expire(v.t.Context(), time.Now(), 1<<20)
	if err != nil || removed != len(v.jobs) {
		v.t.Fatalf("%d of %d jobs were removed: %v", removed, len(v.jobs), err)
	}
	v.jobs, v.ids = nil, nil
}

// TestExpiryMakesRoom fills a disk with jobs: when they have expired, intake opens again though nobody
// else frees anything, and no new work makes tables that Pebble would merge.
func TestExpiryMakesRoom(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		v.fs.resize(36 << 20)
		v.fillSlowly()
		before := v.s.Usage().Bytes
		v.finish()
		v.expire()
		v.insertSoon()
		if after := v.s.Usage().Bytes; after > before/4 {
			t.Fatalf("%d of %d bytes are still taken by jobs that have expired", after, before)
		}
		v.check()
		v.close()
		v.open()
		v.check()
	})
}

// TestExpiryMakesRoomOnTakenDisk is the same when others have taken all that was left.
func TestExpiryMakesRoomOnTakenDisk(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		v.fs.resize(36 << 20)
		for range 250 {
			if err := v.insert(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		v.fs.resize(0)
		v.finish()
		v.expire()
		v.insertSoon()
		v.check()
	})
}

// TestExpiryMakesRoomWithoutWork has jobs expire on a disk that is not full: what they took is given
// back though nothing more is written.
func TestExpiryMakesRoomWithoutWork(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		for range 200 {
			if err := v.insert(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		before := v.s.Usage().Bytes
		v.finish()
		v.expire()
		time.Sleep(time.Minute)
		if after := v.s.Usage().Bytes; after > before/4 {
			t.Fatalf("%d of %d bytes are still taken by jobs that have expired", after, before)
		}
	})
}
