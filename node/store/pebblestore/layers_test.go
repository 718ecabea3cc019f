package pebblestore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// pileUp adds jobs that take much of a memtable and little of the disk, until the store takes no more.
// None of them may wait.
func (v *volume64) pileUp() {
	v.t.Helper()
	for range 1000 {
		j := benchJob(int64(len(v.jobs)))
		j.Request.Body = make([]byte, 100_000)
		v.ids = append(v.ids, j.ID)
		ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
		in, err := v.s.Insert(ctx, j, store.Default)
		waited := ctx.Err() != nil
		cancel()
		switch {
		case waited:
			v.t.Fatalf("insert %d waits: %v", len(v.jobs), err)
		case errors.Is(err, store.ErrFull):
			return
		case err != nil:
			v.t.Fatal(err)
		}
		v.jobs, v.at[j.ID] = append(v.jobs, j), in.Entry
		time.Sleep(10 * time.Millisecond)
	}
	v.t.Fatal("the store takes all although no table can be merged")
}

// TestDK01_NearlyFullDisk has room for every write and none for merging tables: intake closes before the
// tables that pile up stop all writes, accepted jobs and reads go on, and intake opens again when there is
// room.
func TestDK01_NearlyFullDisk(t *testing.T) {
	onVolume(t, func(t *testing.T, v *volume64) {
		v.fs.resize(8 << 20) // others take the rest
		v.pileUp()
		for _, j := range v.jobs[:20] {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := v.life(ctx, j); err != nil {
				t.Fatalf("an accepted job cannot go on: %v", err)
			}
			cancel()
		}
		v.check()
		v.fs.resize(40 << 20)
		v.insertSoon()
		v.close()
		v.open()
		v.check()
	})
}
