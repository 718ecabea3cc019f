package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newGuard(t testing.TB, public bool, allow ...string) *Guard {
	t.Helper()
	g, err := NewGuard(public, allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refused reports whether the guard refuses a host that is an address or a name known to it.
func refused(t testing.TB, g *Guard, host string) bool {
	t.Helper()
	_, _, err := g.resolve(host)
	if err == nil {
		return false
	}
	var blocked *BlockedError
	if !errors.As(err, &blocked) || blocked.Host != host || blocked.Why == "" {
		t.Fatalf("resolve(%q): %#v, want a BlockedError with host and reason", host, err)
	}
	return true
}

func TestSF01_MetadataAddressesInEverySpelling(t *testing.T) {
	g := newGuard(t, false)
	for _, host := range []string{
		"169.254.169.254", "169.254.169.254.", "169.254.170.2", "169.254.0.1",
		"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "::ffff:0:169.254.169.254",
		"64:ff9b::a9fe:a9fe", "64:ff9b::169.254.169.254",
		"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::",
		"2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:0:102:304::5601:5601", "2a00::5efe:a9fe:a9fe",
		"2852039166", "2852039166.", "0xA9FEA9FE", "0xa9fea9fe", "0251.0376.0251.0376", "025177524776",
		"0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662", "0251.254.0xa9fe",
		"metadata.google.internal", "METADATA.google.internal.", "x.metadata.google.internal", "metadata",
		"metadata.goog", "instance-data.ec2.internal",
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::1", "fe80::a9fe:a9fe%eth0", "fe80::1%1",
		"100.100.100.200", "192.0.0.192", "168.63.129.16",
		"0.0.0.0", "0", "0x0", "::", "::0.0.0.0", "::ffff:0.0.0.0", "00.0",
		"1.2.3.4.5", "169.254.169.999", "08", "4294967296", "a.0x", "1..2", "", ".", "..", ".a", "a..b", "a b", "１６９.254.169.254",
	} {
		if !refused(t, g, host) {
			t.Errorf("%q is not refused", host)
		}
	}
}

func TestGuardLetsOrdinaryHostsPass(t *testing.T) {
	for host, dial := range map[string]string{
		"example.com": "example.com", "Example.COM.": "example.com", "a_b.example": "a_b.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"metadata.example.com": "metadata.example.com", "notmetadata.google.internal": "notmetadata.google.internal",
		"10.1.2.3": "10.1.2.3", "127.0.0.1": "127.0.0.1", "localhost": "localhost", "0x7f.1": "127.0.0.1", "2130706433": "127.0.0.1",
		"::1": "::1", "::ffff:127.0.0.1": "127.0.0.1", "fdaa::3": "fdaa::3", "2606:4700::1111": "2606:4700::1111",
		"64:ff9b::808:808": "64:ff9b::808:808", "64:ff9b:1::808:808": "64:ff9b:1::808:808", "256": "0.0.1.0",
	} {
		got, exempt, err := newGuard(t, false).resolve(host)
		if err != nil || got != dial || exempt {
			t.Errorf("resolve(%q) = %q, %v, %v, want %q", host, got, exempt, err, dial)
		}
	}
}

func TestSF03_PrivateAddressesUnlessAllowed(t *testing.T) {
	private := []string{
		"10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "172.16.0.1", "172.31.9.9", "192.168.1.1",
		"127.0.0.1", "127.1", "2130706433", "0.1.2.3", "198.18.0.1", "192.0.2.1", "203.0.113.9", "224.0.0.1", "255.255.255.255",
		"::1", "fdaa::3", "fdaa:0:1::2", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1", "4000::1", "5f00::1",
		"::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:a00:1::", "localhost", "a.localhost",
	}
	public := []string{"8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "example.com"}
	g := newGuard(t, true)
	for _, host := range private {
		if !refused(t, g, host) {
			t.Errorf("%q is not refused", host)
		}
	}
	for _, host := range public {
		if refused(t, g, host) {
			t.Errorf("%q is refused", host)
		}
	}
	open := newGuard(t, true, "10.0.0.0/8", "100.64.0.0/10", "fdaa::/16", "::ffff:172.16.0.0/108", "127.0.0.1", "[::1]", "Localhost.", "2130706434")
	for _, host := range []string{"10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "100.64.0.1", "fdaa::3", "172.16.5.5", "127.0.0.1", "127.0.0.2", "::1", "localhost"} {
		if refused(t, open, host) {
			t.Errorf("%q is refused although it is allowed", host)
		}
	}
	for _, host := range []string{"192.168.1.1", "127.0.0.3", "a.localhost", "169.254.169.254"} {
		if !refused(t, open, host) {
			t.Errorf("%q is not refused", host)
		}
	}
}

func TestAllowedMetadataIsAllowed(t *testing.T) {
	g := newGuard(t, false, "169.254.170.2", "metadata.google.internal")
	for _, host := range []string{"169.254.170.2", "::ffff:169.254.170.2"} {
		if refused(t, g, host) {
			t.Errorf("%q is refused although it is allowed", host)
		}
	}
	if _, exempt, err := g.resolve("metadata.google.internal"); err != nil || !exempt {
		t.Errorf("an allowed name: exempt %v, %v", exempt, err)
	}
	if !refused(t, g, "169.254.169.254") {
		t.Error("an exempt name exempts an address by itself")
	}
}

func TestNewGuardNamesEveryBadExemption(t *testing.T) {
	_, err := NewGuard(false, []string{"10.0.0.0/33", "ok.example", "http://x", "", "host:80", "*.example.com", "10.0.0.0/8"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, bad := range []string{`"10.0.0.0/33"`, `"http://x"`, `""`, `"host:80"`, `"*.example.com"`} {
		if !strings.Contains(err.Error(), bad) {
			t.Errorf("%v does not name %s", err, bad)
		}
	}
	if strings.Contains(err.Error(), "ok.example") || strings.Contains(err.Error(), "10.0.0.0/8") {
		t.Errorf("%v names a good entry", err)
	}
}

func TestBlockedErrorDoesNotTellWhatANameIs(t *testing.T) {
	err := newGuard(t, true).check("db.internal", netip.MustParseAddr("10.1.2.3"))
	if err == nil || err.Error() != "egress guard refused db.internal: it stands for a private address" {
		t.Errorf("error is %v", err)
	}
}

// TestEverySpellingIsOneAddress writes addresses in the forms that resolvers take.
func TestEverySpellingIsOneAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		want := netip.AddrFrom4([4]byte(b))
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
		host := strings.Join(parts, ".") + rapid.SampledFrom([]string{"", "."}).Draw(t, "dot")
		got, err := parseHost(host)
		if err != nil || got.addr != want {
			t.Fatalf("parseHost(%q) = %v, %v, want %v", host, got, err, want)
		}
	})
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"169.254.169.254", "0xA9FEA9FE", "0251.0376", "::ffff:1.2.3.4", "fe80::1%eth0", "a.0x", "metadata.google.internal.", "1..2", "..", "0_1", "+1", "-1.2"} {
		f.Add(s)
	}
	g := newGuard(f, true)
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHost(s)
		switch {
		case err != nil:
			return
		case h.addr.IsValid() == (h.name != ""):
			t.Fatalf("parseHost(%q) = %+v: must be an address or a name", s, h)
		case h.addr.Is4In6():
			t.Fatalf("parseHost(%q) is a mapped address", s)
		}
		dial, _, err := g.resolve(s)
		if err != nil {
			return
		}
		// What is dialled means the same to whoever reads it next.
		if again, err := parseHost(dial); err != nil || again != h {
			t.Fatalf("%q is dialled as %q, which is %+v, not %+v (%v)", s, dial, again, h, err)
		}
	})
}
