package hostname

import "strings"

// Canonical returns host[:port], as a URL has it, in its one spelling: a name in lower case without the
// dot of the root, an IPv4 address in four decimal parts, an IPv6 address as RFC 5952 writes it, in
// brackets and without its zone, and a port without leading zeros. Of what is no host only the case
// changes. What is in that spelling is returned as it is, without an allocation.
func Canonical(s string) string {
	if usual(s) {
		return s
	}
	return respell(s)
}

func respell(s string) string {
	s = strings.ToLower(s)
	bare, port := split(s)
	name, ok := canonical(bare)
	if port = digits(port); !ok || strings.HasPrefix(s, name) && s[len(name):] == port {
		return s
	}
	return name + port
}

// split cuts the port off, with its colon. An IPv6 address without brackets has none.
func split(s string) (bare, port string) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 || strings.Contains(s[at:], "]") || s[0] != '[' && strings.IndexByte(s, ':') != at {
		return s, ""
	}
	return s[:at], s[at:]
}

// digits takes the leading zeros off a port, and its colon if there is nothing behind it.
func digits(port string) string {
	number := strings.TrimPrefix(port, ":")
	switch short := strings.TrimLeft(number, "0"); {
	case number == "":
		return ""
	case short == number:
		return port
	case short == "":
		return ":0"
	default:
		return ":" + short
	}
}

// canonical returns a host without port in its one spelling; false if it is no host.
func canonical(s string) (string, bool) {
	inner := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		inner = s[1 : len(s)-1]
	}
	addr, name, err := Parse(inner)
	if err != nil || name != "" {
		return name, err == nil && inner == s
	}
	// A zone says by which interface a link-local address is reached, and nothing for any other.
	addr = addr.WithZone("")
	var buf [len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]")]byte
	b := addr.AppendTo(buf[:0])
	if addr.Is6() {
		b = append(addr.AppendTo(append(buf[:0], '[')), ']')
	}
	if string(b) == s {
		return s, true
	}
	return string(b), true
}
