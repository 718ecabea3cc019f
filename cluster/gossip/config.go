package gossip

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// DefaultPort is where nodes gossip, UDP and TCP, unless they are told otherwise.
const DefaultPort = 7946

// Config says who a node is and where it finds the others.
type Config struct {
	// Self is this node. Members of other regions are ignored.
	Self cluster.Member
	// Bind is the IP address and port to gossip at, UDP and TCP, such as ":7946" or "[fdaa::3]:7946". Without
	// an address it is all of the machine's; empty means ":7946".
	Bind string
	// Advertise is where the others reach Bind, host or host:port. A name is looked up when the node
	// starts. What is empty is taken from Bind, and the host from Self.Address if Bind has none.
	Advertise string
	// Join are the addresses of members, host or host:port; the default port is that of Bind. A name
	// stands for all addresses it has, and is looked up again for ever. One's own address does not count.
	Join []string
	// Keys encrypt the gossip, 16, 24 or 32 bytes each. The first encrypts, all decrypt. None: no encryption.
	Keys [][]byte
	// Load is how many tenants the node works for now; it is told to the others when it changes. nil
	// means that Self.ActiveTenants stays.
	Load func() int
	// Tuning trades speed for calm and traffic; its zero value is good for a region.
	Tuning Tuning
}

// Deps are what a node's gossip needs of the world. Every zero value is the real one.
type Deps struct {
	// Network opens the port.
	Network Network
	// Resolve returns the addresses of a host name.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Logger  *slog.Logger
	// Registerer takes the metrics; nil drops them.
	Registerer prometheus.Registerer
}

func (d Deps) withDefaults() Deps {
	if d.Network == nil {
		d.Network = machine{}
	}
	if d.Resolve == nil {
		d.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// ParseKeys reads a list of keys, each in base64, separated by commas. No error repeats a key.
func ParseKeys(list string) ([][]byte, error) {
	var keys [][]byte
	var errs []error
	for i, s := range fields(list) {
		key, err := base64.StdEncoding.DecodeString(s)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("gossip key %d must be in base64", i+1))
		case memberlist.ValidateKey(key) != nil:
			errs = append(errs, fmt.Errorf("gossip key %d must have 16, 24 or 32 bytes, got %d", i+1, len(key)))
		}
		keys = append(keys, key)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return keys, nil
}

// ParseJoin reads a list of addresses, host or host:port, separated by commas.
func ParseJoin(list string) ([]string, error) {
	var errs []error
	hosts := fields(list)
	for _, s := range hosts {
		if _, err := parsePlace(s); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return hosts, nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r' })
}

// place is a host, name or address, and a port; 0 if it was not said.
type place struct {
	host string
	port uint16
}

func parsePlace(s string) (place, error) {
	if at, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return place{at.String(), 0}, nil
	}
	host, number, found := s, "", strings.Contains(s, ":")
	if found {
		var err error
		if host, number, err = net.SplitHostPort(s); err != nil {
			return place{}, fmt.Errorf("address must be host or host:port, got %q", s)
		}
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if host == "" || strings.ContainsAny(host, "/@ ") || found && (err != nil || port == 0) {
		return place{}, fmt.Errorf("address must be host or host:port, got %q", s)
	}
	return place{host, uint16(port)}, nil
}

// CheckBind says what is wrong with an address to gossip at; nil if nothing is.
func CheckBind(s string) error {
	_, err := parseBind(s)
	return err
}

// CheckAdvertise says what is wrong with an address at which the others reach a node; nil if nothing is. Without
// one it is found out.
func CheckAdvertise(s string) error {
	if s == "" {
		return nil
	}
	p, err := parsePlace(s)
	if err != nil {
		return fmt.Errorf("gossip advertise: %w", err)
	}
	if !cluster.Callable(p.host) {
		return fmt.Errorf("gossip advertise: address must have a host that other nodes can call, got %q", s)
	}
	return nil
}

// parseBind reads an address to listen at; the zero address stands for all.
func parseBind(s string) (netip.AddrPort, error) {
	if s == "" {
		return netip.AddrPortFrom(netip.Addr{}, DefaultPort), nil
	}
	host, number, err := net.SplitHostPort(s)
	var at netip.Addr
	if err == nil && host != "" {
		at, err = netip.ParseAddr(host)
	}
	port, errPort := strconv.ParseUint(number, 10, 16)
	if err != nil || errPort != nil {
		return netip.AddrPort{}, fmt.Errorf("gossip bind must be ip:port or :port, got %q", s)
	}
	if at.IsValid() && at.IsUnspecified() {
		at = netip.Addr{}
	}
	return netip.AddrPortFrom(at, uint16(port)), nil
}
