package gossip

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func newTestCodec(t testing.TB) codec {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCardsAreReadAsTheyWereWritten(t *testing.T) {
	c := newTestCodec(t)
	rapid.Check(t, func(t *rapid.T) {
		m := cluster.Member{
			ID:            "a",
			Address:       "http://" + rapid.StringMatching(`[a-z][a-z0-9.-]{0,59}:[1-9][0-9]{3}`).Draw(t, "host"),
			Region:        rapid.StringN(0, 20, 40).Draw(t, "region"),
			State:         rapid.SampledFrom([]cluster.State{"", cluster.Active, cluster.Draining, cluster.Offline, "later"}).Draw(t, "state"),
			Capacity:      rapid.IntRange(0, 1<<40).Draw(t, "capacity"),
			ActiveTenants: rapid.IntRange(0, 1<<40).Draw(t, "tenants"),
			Version:       rapid.StringN(0, 20, 40).Draw(t, "version"),
		}
		want := tidings{m, time.UnixMilli(rapid.Int64Range(0, 1<<45).Draw(t, "started")), rapid.Bool().Draw(t, "settled")}
		b, err := c.encode(want)
		if err != nil || len(b) > memberlist.MetaMaxSize {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if got, err := c.decode("a", b); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

// What a later release adds is not understood, and does no harm.
func TestCardsOfLaterReleasesAreRead(t *testing.T) {
	b := append([]byte{cardFormat, 0xa3, 0x01, 0x68}, "http://x"...)
	b = append(b, 0x18, 0x63, 0x81, 0x01, 0x03, 0x64)
	b = append(b, "rest"...)
	got, err := newTestCodec(t).decode("a", b)
	if err != nil || got.member.Address != "http://x" || got.member.State != "rest" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCardsThatDoNotFitAreRefused(t *testing.T) {
	m := cluster.Member{ID: "a", Address: "http://a", Version: strings.Repeat("v", memberlist.MetaMaxSize)}
	err := newTestCodec(t).checkSize(m)
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
	m.Version = m.Version[:400]
	if err := newTestCodec(t).checkSize(m); err != nil {
		t.Error(err)
	}
}

func FuzzCard(f *testing.F) {
	c := newTestCodec(f)
	m := cluster.Member{Address: "http://10.0.0.1:8080", Region: "fra", State: cluster.Active, Capacity: 7}
	b, err := c.encode(tidings{m, time.Now(), true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{1, 0xbf, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		heard, err := c.decode("a", b)
		if err != nil {
			return
		}
		if err := heard.member.Check(); err != nil {
			t.Fatalf("%+v: %v", heard, err)
		}
		again, err := c.encode(heard)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.decode("a", again); err != nil || got != heard {
			t.Fatalf("%+v became %+v, %v", heard, got, err)
		}
	})
}

func FuzzRoll(f *testing.F) {
	c := newTestCodec(f)
	b, err := c.encodeRoll(roll{From: "a", Seen: map[string]sighting{"b": {"10.0.0.1:1", 1}, "c": {Started: 1 << 40}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{1, 0xa1, 2, 0xba, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := c.decodeRoll(b)
		if err != nil {
			return
		}
		again, err := c.encodeRoll(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.decodeRoll(again); err != nil || got.From != r.From || !maps.Equal(got.Seen, r.Seen) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}
