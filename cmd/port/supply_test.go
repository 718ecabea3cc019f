package port_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/aquifer-fleet/aquifer/cmd/port"
)

func TestAddressesAreFreeAndNeverTheSame(t *testing.T) {
	s, seen := port.NewSupply(), map[string]bool{}
	for range 20 {
		one, two, err := s.Pair()
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range []string{one, two} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			if seen[addr] {
				t.Errorf("%s comes twice", addr)
			}
			seen[addr] = true
		}
	}
}

// What somebody listens at, by either protocol, is passed over.
func TestTakenPortsAreNotHandedOut(t *testing.T) {
	s := port.NewSupply()
	before, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(before)
	next := func(n uint16) string { return netip.AddrPortFrom(at.Addr(), at.Port()+n).String() }
	if l, err := net.Listen("tcp", next(1)); err == nil { // else somebody else does
		defer l.Close()
	}
	if c, err := net.ListenPacket("udp", next(2)); err == nil {
		defer c.Close()
	}
	if got, err := s.Take(); err != nil || got == next(1) || got == next(2) {
		t.Errorf("%s after %s: %v", got, before, err)
	}
}
