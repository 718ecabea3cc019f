package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// hung is a store of orders that answers nobody until it is released.
type hung struct {
	released chan struct{}
	stored   chan string
}

func (h hung) Override(_ context.Context, host string, _ store.Override) error {
	<-h.released
	h.stored <- host
	return nil
}

func (h hung) Overrides(context.Context, time.Time) (map[string]store.Override, error) {
	return map[string]store.Override{}, nil
}

// While an order is not stored, the next ones are refused and leave nothing behind: they are not taken. The one that was begun
// takes effect when it is stored, and then the next one is taken.
func TestOrdersDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hung{released: make(chan struct{}), stored: make(chan string, 20)}
		r := newRegime(&Config{}, h, slog.New(slog.DiscardHandler))
		pause := func(host string) error {
			return r.order(t.Context(), order{host: host, change: func(o *store.Override) { o.Paused = true }})
		}
		for i := range 10 {
			start := time.Now()
			var refused *fault.Error
			if err := pause(fmt.Sprint("host-", i)); !errors.As(err, &refused) || refused.Kind != fault.Unavailable || refused.RetryAfter <= 0 {
				t.Fatalf("order %d: %v", i, err)
			}
			if took := time.Since(start); took > storing {
				t.Errorf("order %d was waited for %v", i, took)
			}
		}
		close(h.released)
		synctest.Wait()
		if n := len(h.stored); n != 1 || !r.paused("host-0") || r.paused("host-1") {
			t.Errorf("%d orders were stored", n)
		}
		if err := pause("host-1"); err != nil || !r.paused("host-1") {
			t.Errorf("an order after that: %v", err)
		}
	})
}
