package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/port"
)

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := port.Take()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// echo is a place that sends back what it gets.
func echo(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr().String()
}

// house is an echo behind a door that finds out who calls.
func house(t *testing.T, n *network, who func(net.Conn) (place, bool)) *door {
	t.Helper()
	d := &door{to: "n2", addr: freeAddr(t), behind: echo(t), net: n, who: who}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends a word and reports whether it comes back before the limit.
func say(t *testing.T, c net.Conn, limit time.Duration) bool {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("word")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err == nil
}

const (
	long  = 10 * time.Second       // for what comes
	brief = 100 * time.Millisecond // for what does not
)

func TestDoorLetsThroughUntilTheLinkDrops(t *testing.T) {
	for _, c := range []struct{ from, to place }{{"n1", "n2"}, {"n2", "n1"}} { // requests, answers
		n := newNetwork()
		conn := dial(t, house(t, n, always("n1")).addr)
		if !say(t, conn, long) {
			t.Fatal("no answer")
		}
		if err := n.drop(c.from, c.to); err != nil {
			t.Fatal(err)
		}
		if say(t, conn, brief) {
			t.Errorf("an answer although %s to %s drops", c.from, c.to)
		}
		n.heal(t.Context())
	}
}

func TestDropHitsNobodyElse(t *testing.T) {
	n := newNetwork()
	d := house(t, n, always("n3"))
	if err := n.drop("n1", "n2"); err != nil {
		t.Fatal(err)
	}
	if !say(t, dial(t, d.addr), long) {
		t.Error("no answer to another node")
	}
	n.heal(t.Context())
}

func TestHealLetsThroughAgain(t *testing.T) {
	n := newNetwork()
	d := house(t, n, always("n1"))
	if err := n.drop("n1", "n2"); err != nil {
		t.Fatal(err)
	}
	n.heal(t.Context())
	if !say(t, dial(t, d.addr), long) {
		t.Error("no answer")
	}
	if err := n.drop("n1", "n2"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	n.heal(t.Context())
}

func TestSlowLinkIsLate(t *testing.T) {
	n := newNetwork()
	conn := dial(t, house(t, n, always("n1")).addr)
	if err := n.slow("n2", "n1", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if !say(t, conn, long) {
		t.Fatal("no answer")
	}
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("took %s", took)
	}
	n.heal(t.Context())
}

func TestClosedDoorRefuses(t *testing.T) {
	d := house(t, newNetwork(), always("n1"))
	d.close()
	d.close()
	if c, err := net.Dial("tcp", d.addr); err == nil {
		c.Close()
		t.Error("let in")
	}
	if err := errors.Join(d.open(), d.open()); err != nil {
		t.Fatal(err)
	}
	if !say(t, dial(t, d.addr), long) {
		t.Error("no answer")
	}
}

func TestDoorRefusesStrangers(t *testing.T) {
	d := house(t, newNetwork(), func(net.Conn) (place, bool) { return "", false })
	if say(t, dial(t, d.addr), long) {
		t.Error("an answer")
	}
}

func TestPackets(t *testing.T) {
	n := newNetwork()
	inner := packets(t)
	addr := freeAddr(t)
	a, err := newAir(&air{to: "n2", net: n, behind: netip.MustParseAddrPort(inner.LocalAddr().String()),
		who: func(netip.AddrPort) (place, bool) { return "n1", true }}, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	outer, words := packets(t), 0
	arrives := func(limit time.Duration) bool {
		t.Helper()
		words++ // what was to be lost, and was on its way yet when all was healed, is another one
		word := fmt.Sprint("word ", words)
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		if _, err := outer.WriteTo([]byte(word), to); err != nil {
			t.Fatal(err)
		}
		if err := inner.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		for got := make([]byte, 10); ; {
			n, _, err := inner.ReadFrom(got)
			if err != nil || string(got[:n]) == word {
				return err == nil
			}
		}
	}
	if !arrives(long) {
		t.Error("lost without a fault")
	}
	n.lose([]place{"n1", "n2"}, 1)
	if arrives(brief) {
		t.Error("not lost")
	}
	n.heal(t.Context())
	if err := n.slow("n1", "n2", brief); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if !arrives(long) || time.Since(begin) < brief {
		t.Error("lost or not late")
	}
	n.heal(t.Context())
	if err := n.drop("n1", "n2"); err != nil {
		t.Fatal(err)
	}
	if arrives(brief) {
		t.Error("not dropped")
	}
}

func packets(t *testing.T) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
