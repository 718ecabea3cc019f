package pebblestore

import (
	"context"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// override is the record of an operator's order.
type override struct {
	Paused        bool    `cbor:"1,keyasint,omitempty"`
	RPS           float64 `cbor:"2,keyasint,omitempty"`
	MaxConcurrent int     `cbor:"3,keyasint,omitempty"`
	LimitsUntil   int64   `cbor:"4,keyasint,omitempty"` // Unix ms
	SetAt         int64   `cbor:"5,keyasint,omitempty"` // Unix ms
}

func overrideKey(host string) []byte { return append([]byte{kindOverride}, host...) }

// Override is store.Overrides.Override. Of two at one time for one host, either may be the last.
func (s *Store) Override(ctx context.Context, host string, o store.Override) error {
	c := s.newChange()
	c.durable = s.logs.strict
	if o.Empty() {
		c.remove(overrideKey(host))
	} else if err := s.setRecord(c, overrideKey(host), override(o), 0); err != nil {
		return s.abandon(c, err)
	}
	_, err := s.commit(ctx, c)
	return err
}

// Overrides is store.Overrides.Overrides. What cannot be read is left out.
func (s *Store) Overrides(ctx context.Context, now time.Time) (map[string]store.Override, error) {
	all := make(map[string]store.Override)
	type order struct {
		host string
		store.Override
	}
	orders := scan(ctx, s, []byte{kindOverride}, func(key, value []byte) (order, error) {
		var o override
		if _, err := s.codec.decode(value, &o); err != nil {
			return order{}, s.unreadable.note(key, err)
		}
		return order{string(key[1:]), store.Override(o)}, nil
	})
	for o, err := range orders {
		if err != nil {
			return nil, err
		}
		if at := o.At(now); !at.Empty() {
			all[o.host] = at
		}
	}
	return all, nil
}
