package hostname_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/hostname"
)

func TestCanonical(t *testing.T) {
	for s, want := range map[string]string{
		"api.example": "api.example", "API.Example.": "api.example", "api.example:8080": "api.example:8080",
		"api.example.:08080": "api.example:8080", "api.example:": "api.example", "a_b-c.example": "a_b-c.example",
		"127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "0x7F000001": "127.0.0.1", "2130706433": "127.0.0.1",
		"0177.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "127.1:0080": "127.0.0.1:80", "0x7f.1:8": "127.0.0.1:8",
		"[::1]": "[::1]", "[0:0:0:0:0:0:0:1]:9000": "[::1]:9000", "[2001:DB8::0:1]": "[2001:db8::1]",
		"[::ffff:127.0.0.1]": "127.0.0.1", "[::ffff:7f00:1]:80": "127.0.0.1:80", "[::1%25a]:80": "[::1]:80", "[fe80::1%25eth0]": "[fe80::1]",
		"::1": "[::1]", "[127.1]": "127.0.0.1", "localhost:00": "localhost:0",
		// What the guard refuses, or no URL has, stays apart.
		"": "", ":": ":", "[::": "[::", ".": ".", "a..b": "a..b", "..": "..", "1.2.3.4.5": "1.2.3.4.5", "A b": "a b", "127.0.0.256": "127.0.0.256",
		"[": "[", "[]": "[]", "[api.example]": "[api.example]", "]:80": "]:80", "a:b:c": "a:b:c", "a:B": "a:b", "Bücher": "bücher",
	} {
		if got := hostname.Canonical(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestCanonicalOfTheUsualAllocatesNothing(t *testing.T) {
	for _, s := range []string{"api.example", "api.example:8443", "127.0.0.1:9000", "[2001:db8::1]:443"} {
		if n := testing.AllocsPerRun(100, func() { hostname.Canonical(s) }); n != 0 {
			t.Errorf("%q: %v allocations", s, n)
		}
	}
}

// spell writes an address in one of the forms that resolvers take.
func spell(t *rapid.T, a netip.Addr) string {
	b := a.As4()
	if rapid.Bool().Draw(t, "mapped") {
		full := netip.AddrFrom16(a.As16())
		return rapid.SampledFrom([]string{"[" + full.String() + "]", "[" + strings.ToUpper(full.StringExpanded()) + "]"}).Draw(t, "v6")
	}
	n := rapid.IntRange(1, 4).Draw(t, "parts")
	parts := make([]string, n)
	for i := range parts {
		v := uint64(b[i])
		if i == n-1 {
			v = 0
			for _, x := range b[i:] {
				v = v<<8 | uint64(x)
			}
		}
		parts[i] = fmt.Sprintf(rapid.SampledFrom([]string{"%d", "0%o", "0x%x", "0X%X", "0x0%x", "000%o"}).Draw(t, "form"), v)
	}
	return strings.Join(parts, ".") + rapid.SampledFrom([]string{"", "."}).Draw(t, "dot")
}

func TestEverySpellingOfAnAddressIsOneHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		a := netip.AddrFrom4([4]byte(b))
		port := rapid.Uint16().Draw(t, "port")
		s := spell(t, a) + fmt.Sprintf(rapid.SampledFrom([]string{":%d", ":%05d", ":%08d"}).Draw(t, "port form"), port)
		if got, want := hostname.Canonical(s), fmt.Sprintf("%v:%d", a, port); got != want {
			t.Fatalf("%q: got %q, want %q", s, got, want)
		}
	})
}

func TestEverySpellingOfANameIsOneHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9_-]{1,9}(\.[a-z0-9_-]{1,9}){0,3}\.[a-z]{2,5}`).Draw(t, "name")
		s := rapid.SampledFrom([]string{name, strings.ToUpper(name), name + ".", strings.ToUpper(name) + ".:"}).Draw(t, "spelling")
		if got := hostname.Canonical(s); got != name {
			t.Fatalf("%q: got %q, want %q", s, got, name)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for _, s := range []string{"api.example:8443", "127.0.0.1:9000", "[2001:db8::1]:443"} {
		b.Run(s, func(b *testing.B) {
			for b.Loop() {
				hostname.Canonical(s)
			}
		})
	}
}

// FuzzCanonical: one spelling is its own, and means the same to whoever reads it as a host.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"API.example.:080", "127.1", "[::ffff:7f00:1]:80", "[fe80::1%25eth0]", "::1", "[::]:", "[::", "a:b", "0x", "..", "[[::1]]", "1.", "[1.2]:3:4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := hostname.Canonical(s)
		if again := hostname.Canonical(once); again != once {
			t.Fatalf("%q is %q, which is %q", s, once, again)
		}
		addr, name, err := hostname.Parse(s)
		if err != nil {
			return
		}
		switch got, gotName, gotErr := hostname.Parse(strings.Trim(once, "[]")); {
		case addr.IsValid() == (name != ""), addr.Is4In6():
			t.Fatalf("%q is the address %v and the name %q", s, addr, name)
		case gotErr != nil || got != addr.WithZone("") || gotName != name:
			t.Fatalf("%q is %v %q, but %q is %v %q, %v", s, addr, name, once, got, gotName, gotErr)
		}
	})
}
