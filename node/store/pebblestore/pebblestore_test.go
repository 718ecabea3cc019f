package pebblestore_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestStore(t *testing.T) {
	for name, o := range map[string]pebblestore.Options{
		"sync":  {SyncInterval: 5 * time.Millisecond},
		"flush": {FlushInterval: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) func() (store.Store, error) {
				o := o
				o.Dir, o.FS = "data", vfs.NewMem()
				return func() (store.Store, error) { return pebblestore.Open(t.Context(), o) }
			})
		})
		t.Run(name+" with a ledger", func(t *testing.T) {
			storetest.RunLedger(t, func(t *testing.T) func() (store.Store, error) {
				o := o
				o.Dir, o.FS, o.Ledger = "data", vfs.NewMem(), true
				return func() (store.Store, error) { return pebblestore.Open(t.Context(), o) }
			})
		})
	}
}
