package storetest_test

import (
	"errors"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestDisk(t *testing.T) { storetest.Run(t, storetest.OpenDisk) }

func TestLedger(t *testing.T) { storetest.RunLedger(t, storetest.OpenLedger) }

func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, lands := range []bool{false, true} {
		disk := storetest.NewDisk(t)
		s, err := disk.Open()
		if err != nil {
			t.Fatal(err)
		}
		var asked string
		disk.SetFault(func(method string) (bool, error) {
			asked = method
			return lands, broken
		})
		j := &job.Job{ID: job.ID{1}, Request: job.Request{URL: "http://t.test", WebhookURL: "http://r.test"}}
		got, err := s.Insert(t.Context(), j, store.Default)
		if !errors.Is(err, broken) || asked != "Insert" || got != (store.Inserted{}) {
			t.Fatalf("insert on a broken disk: %v, %v, asked about %q", got, err, asked)
		}
		disk.SetFault(nil)
		if _, err := s.Get(t.Context(), j.ID); (err == nil) != lands {
			t.Fatalf("lands %v: get after the fault: %v", lands, err)
		}
	}
}
