package hostname

import "strings"

// usual reports whether s, at one look, is in its one spelling, as nearly all hosts are: a name in lower case whose last
// label begins with a letter, or an address in four decimal parts, with or without a port.
func usual(s string) bool {
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && !decimal(port, 5) {
		return false
	}
	last := strings.LastIndexByte(host, '.') + 1
	if last == len(host) {
		return false
	}
	if c := host[last]; c < 'a' || c > 'z' {
		return quad(host)
	}
	label := 0
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			label++
		case c == '.' && label > 0:
			label = 0
		default:
			return false
		}
	}
	return true
}

// quad reports whether s is an address in four decimal parts.
func quad(s string) bool {
	for range 3 {
		part, rest, ok := strings.Cut(s, ".")
		if !ok || !octet(part) {
			return false
		}
		s = rest
	}
	return octet(s)
}

func octet(s string) bool { return s == "0" || decimal(s, 3) && (len(s) < 3 || s <= "255") }

// decimal reports whether s is a number above 0 of at most so many digits, without leading zeros.
func decimal(s string, most int) bool {
	if s == "" || len(s) > most || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
