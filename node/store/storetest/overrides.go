package storetest

import (
	"context"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

func (m *memory) Override(ctx context.Context, host string, o store.Override) error {
	return m.change(ctx, "Override", func(d *Disk) (func(), error) {
		return func() {
			delete(d.orders, host)
			if !o.Empty() {
				d.orders[host] = o
			}
		}, nil
	})
}

func (m *memory) Overrides(ctx context.Context, now time.Time) (all map[string]store.Override, err error) {
	err = m.read(ctx, func(d *Disk) error {
		all = make(map[string]store.Override)
		for host, o := range d.orders {
			if o = o.At(now); !o.Empty() {
				all[host] = o
			}
		}
		return nil
	})
	return all, err
}

func overrideTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Overrides/one after another": overrideOneAfterAnother,
		"Overrides/limits run out":    overrideRunsOut,
		"Overrides/after reopening":   overrideReopen,
	}
}

func (h *harness) override(host string, o store.Override) {
	h.t.Helper()
	h.ok(h.s.Override(h.ctx, host, o))
}

func (h *harness) overrides(want map[string]store.Override) {
	h.t.Helper()
	got, err := h.s.Overrides(h.ctx, time.Now())
	h.ok(err)
	h.equal(got, want)
}

func overrideOneAfterAnother(h *harness) {
	h.overrides(map[string]store.Override{})
	paused, slow := store.Override{Paused: true, SetAt: 1}, store.Override{RPS: 0.5, MaxConcurrent: 2, SetAt: 2}
	h.override("a.example", paused)
	h.override("b.example:8080", paused)
	h.override("a.example", slow)
	h.overrides(map[string]store.Override{"a.example": slow, "b.example:8080": paused})
	h.override("b.example:8080", store.Override{})
	h.override("never.ordered", store.Override{})
	h.overrides(map[string]store.Override{"a.example": slow})
}

func overrideRunsOut(h *harness) {
	until := time.Now().Add(time.Minute).UnixMilli()
	both := store.Override{Paused: true, RPS: 3, LimitsUntil: until}
	limits := store.Override{MaxConcurrent: 1, LimitsUntil: until}
	h.override("both", both)
	h.override("limits", limits)
	time.Sleep(time.Minute - time.Millisecond)
	h.overrides(map[string]store.Override{"both": both, "limits": limits})
	time.Sleep(time.Millisecond)
	h.overrides(map[string]store.Override{"both": {Paused: true}})
}

func overrideReopen(h *harness) {
	order := store.Override{Paused: true, RPS: 0.25, MaxConcurrent: 7, LimitsUntil: 1 << 52, SetAt: 5}
	h.override("a.example", order)
	h.reopen()
	h.overrides(map[string]store.Override{"a.example": order})
}
