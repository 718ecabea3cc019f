package port

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestMain lets the test program stand in for another process that takes an address, and begins to look where it is told.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "take" {
		supply.next, _ = strconv.Atoi(os.Args[2])
		addr, _ := Take()
		_, _ = os.Stdout.WriteString(addr)
		return
	}
	os.Exit(m.Run())
}

func TestAddressesAreFreeAndNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 30 {
		one, two, err := Pair()
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

// What this process has taken is nobody else's, though nobody listens there.
func TestAnotherProcessTakesOthers(t *testing.T) {
	mine, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	at := int(netip.MustParseAddrPort(mine).Port()) - first
	theirs, err := exec.Command(os.Args[0], "take", strconv.Itoa(at)).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := netip.ParseAddrPort(string(theirs))
	if err != nil || (int(got.Port())-first)/share == at/share {
		t.Errorf("this process has %s, and another one %q: %v", mine, theirs, err)
	}
}

// What somebody listens at, by either protocol, is passed over.
func TestTakenPortsAreNotHandedOut(t *testing.T) {
	before, err := Take()
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
	if got, err := Take(); err != nil || got == next(1) || got == next(2) {
		t.Errorf("%s after %s: %v", got, before, err)
	}
}
