package egress

import (
	"net/netip"
	"slices"
	"strings"
)

// block is a range of addresses and what they are.
type block struct {
	net netip.Prefix
	why string
}

// alwaysBlocked never is a target of a job: link-local and unspecified addresses, and those of the
// metadata services of the clouds, as their documentation names them.
var alwaysBlocked = []block{
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"}, // AWS, GCP, Azure and most others
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("0.0.0.0/32"), "the unspecified address"},
	{netip.MustParsePrefix("::/128"), "the unspecified address"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud metadata address"}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), "a cloud metadata address"},     // Oracle
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud metadata address"},   // Azure's wire server
	{netip.MustParsePrefix("fd00:ec2::/32"), "a cloud metadata address"},      // AWS
	{netip.MustParsePrefix("fd20:ce::/32"), "a cloud metadata address"},       // GCP
	{netip.MustParsePrefix("fd00:42::42/128"), "a cloud metadata address"},    // Scaleway
}

// publicBlocked is not globally reachable, by the IANA special-purpose address registries (RFC 6890).
var publicBlocked = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "a reserved address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a shared address"}, // carrier-grade NAT
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmarking address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"}, // with fdaa::/16, the 6PN of Fly.io
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("2001:2::/48"), "a benchmarking address"},
	{netip.MustParsePrefix("2001:10::/28"), "a reserved address"},
	{netip.MustParsePrefix("2001:20::/28"), "a reserved address"},
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address"},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")       // all that IANA has given out
	nat64         = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	nat64Local    = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	translated    = netip.MustParsePrefix("::ffff:0:0:0/96")
	compatible    = netip.MustParsePrefix("::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	teredo        = netip.MustParsePrefix("2001::/32")
)

// metadataNames are the hosts under which clouds serve metadata; what is below them counts too.
var metadataNames = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	"metadata.azure.internal", "metadata.platformequinix.com", "metadata.packet.net", "metadata.tencentyun.com",
	"rancher-metadata",
}

// blockedAddr returns what addr is if it may not be called, else "".
func blockedAddr(addr netip.Addr, public bool) string {
	if why := lookup(alwaysBlocked, addr); why != "" || !public {
		return why
	}
	if why := lookup(publicBlocked, addr); why != "" {
		return why
	}
	if addr.Is6() && !globalUnicast.Contains(addr) && !nat64.Contains(addr) {
		return "a reserved address"
	}
	return ""
}

func lookup(blocks []block, addr netip.Addr) string {
	for _, b := range blocks {
		if b.net.Contains(addr) {
			return b.why
		}
	}
	return ""
}

// blockedName returns what a name in lower case is if it may not be called, else "".
func blockedName(name string, public bool) string {
	for _, m := range metadataNames {
		if within(name, m) {
			return "a cloud metadata name"
		}
	}
	if public && within(name, "localhost") {
		return "a loopback name"
	}
	return ""
}

func within(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// embedded returns the IPv4 addresses that an IPv6 address may stand for.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	low := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case nat64.Contains(addr), translated.Contains(addr), compatible.Contains(addr):
		return []netip.Addr{low}
	case nat64Local.Contains(addr):
		return nat64Inner(b)
	case sixToFour.Contains(addr):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case teredo.Contains(addr): // RFC 4380: server, and client with its bits flipped
		return []netip.Addr{
			netip.AddrFrom4([4]byte(b[4:8])),
			netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}),
		}
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return []netip.Addr{low}
	default:
		return nil
	}
}

// nat64Inner reads the four places that RFC 6052, section 2.2, allows below a /48. A place that holds
// only zeros is not the one in use.
func nat64Inner(b [16]byte) []netip.Addr {
	places := []netip.Addr{
		netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}),
		netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
		netip.AddrFrom4([4]byte{b[9], b[10], b[11], b[12]}),
		netip.AddrFrom4([4]byte(b[12:16])),
	}
	return slices.DeleteFunc(places, netip.Addr.IsUnspecified)
}
