package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Guard says which hosts and addresses the node may call. It never changes, so it may be shared.
//
// Some addresses are always refused: link-local ones, the unspecified ones, and those under which
// clouds hand out credentials. A public guard refuses whatever is not globally reachable. An address
// inside another one, as in NAT64 or 6to4, is judged too, because the network may unwrap it.
type Guard struct {
	public bool
	nets   []netip.Prefix      // exempt
	hosts  map[string]struct{} // exempt, lower case
}

// NewGuard returns a guard. Each entry of allow is an exemption: a CIDR, an address or a host name,
// which exempts every address that the name has. The error names every entry that is none of these.
func NewGuard(public bool, allow []string) (*Guard, error) {
	g := &Guard{public: public, hosts: make(map[string]struct{})}
	var bad []error
	for _, entry := range allow {
		if err := g.exempt(strings.TrimSpace(entry)); err != nil {
			bad = append(bad, err)
		}
	}
	return g, errors.Join(bad...)
}

func (g *Guard) exempt(entry string) error {
	if p, err := netip.ParsePrefix(entry); err == nil {
		g.nets = append(g.nets, unmapPrefix(p).Masked())
		return nil
	}
	host, err := parseHost(strings.Trim(entry, "[]"))
	switch {
	case err != nil:
		return fmt.Errorf("egress exemption must be a CIDR, an address or a host name, got %q", entry)
	case host.addr.IsValid():
		a := host.addr.WithZone("")
		g.nets = append(g.nets, netip.PrefixFrom(a, a.BitLen()))
	default:
		g.hosts[host.name] = struct{}{}
	}
	return nil
}

// unmapPrefix turns a prefix of IPv4-mapped addresses into the one of IPv4 that it stands for.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}

// BlockedError is a refusal of the guard. Another attempt is no use.
type BlockedError struct {
	Host string     // as the caller wrote it
	Addr netip.Addr // the address it stands for; invalid if the name itself is refused
	Why  string     // the kind of address, such as "a link-local address"
}

// Error says what was refused and why. It does not tell what a name resolves to: a caller could map
// a private network with it.
func (e *BlockedError) Error() string {
	return "egress guard refused " + e.Host + ": " + e.Why
}

// resolve judges a host as it stands in an address. It returns the host to dial, where an address has
// its usual spelling, and whether the name is exempt, so that its addresses need no check.
func (g *Guard) resolve(host string) (dial string, exempt bool, err error) {
	h, err := parseHost(host)
	if err != nil {
		return "", false, &BlockedError{Host: host, Why: err.Error()}
	}
	if h.addr.IsValid() {
		return h.addr.String(), false, g.check(host, h.addr)
	}
	if _, ok := g.hosts[h.name]; ok {
		return h.name, true, nil
	}
	if why := blockedName(h.name, g.public); why != "" {
		return "", false, &BlockedError{Host: host, Why: why}
	}
	return h.name, false, nil
}

// check judges one address of host.
func (g *Guard) check(host string, addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if g.allowed(addr) {
		return nil
	}
	why := blockedAddr(addr, g.public)
	for _, inner := range embedded(addr) {
		if why == "" && !g.allowed(inner) {
			why = blockedAddr(inner, g.public)
		}
	}
	if why == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		why = "it stands for " + why
	}
	return &BlockedError{Host: host, Addr: addr, Why: why}
}

func (g *Guard) allowed(addr netip.Addr) bool {
	for _, p := range g.nets {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
