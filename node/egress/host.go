package egress

import (
	"net/netip"

	"github.com/aquifer-fleet/aquifer/node/hostname"
)

// parsedHost is a host as a resolver may understand it: an address or a name in lower case.
type parsedHost struct {
	addr netip.Addr
	name string
}

// parseHost reads a host without brackets and port.
func parseHost(s string) (parsedHost, error) {
	addr, name, err := hostname.Parse(s)
	return parsedHost{addr, name}, err
}
