package valkeytest

import (
	"testing"
	"time"
)

// Until tries every few ms until that succeeds. A test in which it does not within a minute fails with the
// last error.
func Until(t testing.TB, try func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal(err)
		}
	}
}
