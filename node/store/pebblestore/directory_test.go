package pebblestore_test

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// The directories of a new store are as durable as the first job in it.
func TestPowerCutAfterTheFirstJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		open := func() *pebblestore.Store {
			s, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: "/var/lib/store", FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open()
		j := &job.Job{ID: job.ID{1}, Request: job.Request{URL: "http://t.test", WebhookURL: "http://r.test"}}
		if _, err := s.Insert(t.Context(), j, store.Default); err != nil {
			t.Fatal(err)
		}
		left := disk.CrashClone(vfs.CrashCloneCfg{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		disk = left
		s = open()
		if _, err := s.Get(t.Context(), j.ID); err != nil {
			t.Errorf("the job after a power cut: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
