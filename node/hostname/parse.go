package hostname

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Errors of Parse.
var (
	ErrName    = errors.New("it is not a host name in ASCII")
	ErrNumeric = errors.New("it ends in a number but is not an address")
)

// nameChars are what host names in use are made of.
const nameChars = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// Parse reads a host without brackets and port: it is an address, never an IPv4-mapped one, or a name
// in lower case without the dot of the root. A host that ends in a number is an address for some
// resolvers, so it must be one that we understand: the rule and the forms of the WHATWG URL standard,
// section 3.5, which are those of inet_aton. The error is ErrName or ErrNumeric.
func Parse(s string) (addr netip.Addr, name string, err error) {
	if strings.Contains(s, ":") {
		if addr, err = netip.ParseAddr(s); err != nil {
			return netip.Addr{}, "", ErrName
		}
		return addr.Unmap(), "", nil
	}
	name = strings.TrimSuffix(strings.ToLower(s), ".")
	if strings.Trim(name, nameChars) != "" || emptyLabel(name) {
		return netip.Addr{}, "", ErrName
	}
	if !numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		return netip.Addr{}, name, nil
	}
	if addr, err = netip.ParseAddr(name); err == nil {
		return addr, "", nil
	}
	addr, ok := parseAton(name)
	if !ok {
		return netip.Addr{}, "", ErrNumeric
	}
	return addr, "", nil
}

// emptyLabel reports whether a name has nothing between two dots, or at one of its ends.
func emptyLabel(name string) bool {
	return name == "" || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..")
}

// numeric reports whether the last label of a name makes it an address: digits only, or hexadecimal.
func numeric(label string) bool {
	if label == "" {
		return false
	}
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// parseAton reads an IPv4 address of one to four parts, each decimal, octal (0...) or hexadecimal
// (0x...); the last part fills the bytes that are left.
func parseAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		n, ok := parsePart(p)
		limit := uint64(1) << 8
		if i == len(parts)-1 {
			limit = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= limit {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			v = v<<(8*(5-len(parts))) | n
		} else {
			v = v<<8 | n
		}
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

func parsePart(p string) (uint64, bool) {
	base := 10
	if hex, ok := strings.CutPrefix(p, "0x"); ok {
		p, base = hex, 16
		if p == "" {
			return 0, true
		}
	} else if len(p) > 1 && p[0] == '0' {
		p, base = p[1:], 8
	}
	if strings.ContainsAny(p, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(p, base, 64)
	return n, err == nil
}
