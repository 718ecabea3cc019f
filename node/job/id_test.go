package job_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestIDForm(t *testing.T) {
	now := time.UnixMilli(0x0123456789ab)
	ids := job.IDs{Tag: job.NodeTag{0xc0, 0xff, 0xee}, Rand: bytes.NewReader([]byte{1, 2, 3, 4, 5, 6, 7})}
	id, err := ids.New(now.Add(999 * time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	if got := id.String(); got != "0123456789abc0ffee01020304050607" {
		t.Errorf("got %s", got)
	}
	if !id.Time().Equal(now) || id.NodeTag() != ids.Tag || id.IsZero() || !(job.ID{}).IsZero() {
		t.Errorf("time %v, tag %x", id.Time(), id.NodeTag())
	}
}

func TestTagOfANode(t *testing.T) {
	if got := job.TagOf("node-1"); got != job.TagOf("node-1") || got == job.TagOf("node-2") {
		t.Errorf("tag %x", got)
	}
	if want := (job.NodeTag{0xba, 0x78, 0x16}); job.TagOf("abc") != want { // SHA-256 of "abc", FIPS 180-2
		t.Errorf("tag %x", job.TagOf("abc"))
	}
}

func TestIDsNeedRandomness(t *testing.T) {
	ids := job.IDs{Rand: bytes.NewReader([]byte{1, 2, 3})}
	if id, err := ids.New(time.UnixMilli(1)); !errors.Is(err, io.ErrUnexpectedEOF) || !id.IsZero() {
		t.Errorf("got %v, %v", id, err)
	}
}

func TestIDsDiffer(t *testing.T) {
	ids := job.IDs{Rand: rand.Reader}
	seen := map[job.ID]bool{}
	for range 10_000 {
		id, err := ids.New(time.UnixMilli(1))
		if err != nil || seen[id] {
			t.Fatalf("%v comes twice, or %v", id, err)
		}
		seen[id] = true
	}
}

// Ids sort by the time of acceptance, as bytes and as text.
func TestIDsSortByTime(t *testing.T) {
	ids := job.IDs{Rand: rand.Reader}
	ms := rapid.Int64Range(0, 1<<48-1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := ms.Draw(t, "a"), ms.Draw(t, "b")
		x, err1 := ids.New(time.UnixMilli(a))
		y, err2 := ids.New(time.UnixMilli(b))
		if err1 != nil || err2 != nil || (a < b && (bytes.Compare(x[:], y[:]) >= 0 || x.String() >= y.String())) || x.Time().UnixMilli() != a {
			t.Errorf("%d %v, %d %v", a, x, b, y)
		}
	})
}

func TestParseIDRefuses(t *testing.T) {
	good := strings.Repeat("0af9", 8)
	for _, s := range []string{"", good[:31], good + "0", strings.ToUpper(good), good[:31] + "g", " " + good[:31], good[:30] + "é", strings.Repeat("é", 16)} {
		if id, err := job.ParseID(s); err == nil || !id.IsZero() {
			t.Errorf("%q is read as %v", s, id)
		}
	}
}

// FuzzParseID: a text is refused or is the one way to write its id.
func FuzzParseID(f *testing.F) {
	f.Add("0123456789abc0ffee01020304050607")
	f.Add("0123456789ABC0FFEE01020304050607")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := job.ParseID(s); err == nil && id.String() != s {
			t.Errorf("%q is read as %v", s, id)
		}
	})
}

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := job.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if got, err := job.ParseID(id.String()); err != nil || got != id {
			t.Errorf("%v became %v, %v", id, got, err)
		}
	})
}
