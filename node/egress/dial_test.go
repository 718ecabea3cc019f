package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// noDial fails the test when the guard lets something through.
func noDial(t testing.TB) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("dialled %s", address)
		return nil, errors.New("must not be dialled")
	}
}

func TestSF01_NothingIsDialled(t *testing.T) {
	c := client(t, Config{Dial: noDial(t)})
	for _, url := range []string{
		"http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/latest", "https://[2002:a9fe:a9fe::1]/",
		"http://2852039166/", "http://0xA9FEA9FE/", "http://0251.0376.0251.0376/", "http://metadata.google.internal/",
		"http://[fd00:ec2::254]/", "http://169.254.170.2:80/", "http://169.254.169.254./", "http://[fe80::1%25eth0]/",
		"http://１６９.254.169.254/", "http://0/", "http://100.100.100.200/",
	} {
		_, err := c.Do(t.Context(), request("POST", url, "secret"))
		if e := failure(t, err); e.Cause != Blocked || e.Sent {
			t.Errorf("%s: cause %v, sent %v: %v", url, e.Cause, e.Sent, e)
		}
	}
	if n := metricValue(t, c.dialer.metrics.dials.WithLabelValues(dialBlocked)); n != 14 {
		t.Errorf("%v dials counted as blocked, want 14", n)
	}
}

func TestSF03_NothingIsDialledInPublic(t *testing.T) {
	c := client(t, Config{Dial: noDial(t), Public: true})
	for _, url := range []string{"http://10.1.2.3/", "http://100.64.1.1/", "http://[fdaa::3]/", "http://127.0.0.1/", "http://localhost/", "http://0x7f.1/"} {
		_, err := c.Do(t.Context(), request("GET", url, ""))
		if e := failure(t, err); e.Cause != Blocked {
			t.Errorf("%s: cause %v: %v", url, e.Cause, e)
		}
	}
}

// The system's dialer refuses too, and does so before a packet leaves.
func TestSystemDialRefusesBeforeConnecting(t *testing.T) {
	accepted := make(chan struct{}, 1)
	url := rawServer(t, func(c *connection) { accepted <- struct{}{} })
	c := client(t, Config{Public: true})
	if _, err := c.Do(t.Context(), request("GET", url, "")); failure(t, err).Cause != Blocked {
		t.Errorf("error is %v", err)
	}
	// The last check, in case a name changes between the look-up and the connection.
	_, err := c.dialer.connectGuarded(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if _, ok := errors.AsType[*BlockedError](err); !ok {
		t.Errorf("error is %v, want a BlockedError", err)
	}
	select {
	case <-accepted:
		t.Error("connected to a blocked address")
	default:
	}
}

// dnsServer answers every look-up of an IPv4 address with the addresses that it is given.
func dnsServer(t testing.TB, addrs func(name string) []string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := dnsAnswer(buf[:n], addrs); answer != nil {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func dnsAnswer(query []byte, addrs func(name string) []string) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	found := addrs(strings.TrimSuffix(q.Name.String(), "."))
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if found == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range found {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

func TestNameWithOneBlockedAddressIsBlocked(t *testing.T) {
	var accepted atomic.Int32
	url := rawServer(t, func(c *connection) {
		accepted.Add(1)
		if req, _ := c.next(); req != nil {
			c.say(okAnswer)
		}
	})
	port := url[strings.LastIndexByte(url, ':'):]
	resolver := dnsServer(t, func(name string) []string {
		return map[string][]string{
			"good.test":  {"127.0.0.1"},
			"mixed.test": {"127.0.0.1", "169.254.169.254"},
			"bad.test":   {"169.254.169.254"},
		}[name]
	})
	c := client(t, Config{Resolver: resolver})
	for _, name := range []string{"mixed.test", "bad.test"} {
		_, err := c.Do(t.Context(), request("GET", "http://"+name+port, ""))
		e := failure(t, err)
		if e.Cause != Blocked || e.Error() != "egress guard refused "+name+": it stands for a link-local address" {
			t.Errorf("%s: %v: %v", name, e.Cause, e)
		}
	}
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections to a name that has a blocked address", n)
	}
	if status, _, err := fetch(t.Context(), c, request("GET", "http://good.test"+port, "")); status != 200 {
		t.Errorf("a good name: %d, %v", status, err)
	}
	if _, err := c.Do(t.Context(), request("GET", "http://none.test"+port, "")); failure(t, err).Cause != DNS {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestExemptNameMayHaveAnyAddress(t *testing.T) {
	url := rawServer(t, func(c *connection) {
		if req, _ := c.next(); req != nil {
			c.say(okAnswer)
		}
	})
	port := url[strings.LastIndexByte(url, ':'):]
	resolver := dnsServer(t, func(string) []string { return []string{"127.0.0.1"} })
	c := client(t, Config{Resolver: resolver, Public: true, Allow: []string{"inside.test"}})
	if status, _, err := fetch(t.Context(), c, request("GET", "http://inside.test"+port, "")); status != 200 {
		t.Errorf("an exempt name: %d, %v", status, err)
	}
	if _, err := c.Do(t.Context(), request("GET", "http://other.test"+port, "")); failure(t, err).Cause != Blocked {
		t.Errorf("another name: %v", err)
	}
}

func TestInjectedDialIsCheckedAfterwards(t *testing.T) {
	url := rawServer(t, func(c *connection) { _, _ = c.next() })
	direct := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, strings.TrimPrefix(url, "http://"))
	}
	c := client(t, Config{Dial: direct, Public: true})
	if _, err := c.Do(t.Context(), request("GET", "http://rebound.test/", "")); failure(t, err).Cause != Blocked {
		t.Errorf("error is %v", err)
	}
	if n := metricValue(t, c.dialer.metrics.connections); n != 0 {
		t.Errorf("%v connections stay", n)
	}
}

func TestCloseEndsConnectionsAndDials(t *testing.T) {
	url := rawServer(t, func(c *connection) { _, _ = c.next() })
	address := strings.TrimPrefix(url, "http://")
	dialling := make(chan struct{})
	c := client(t, Config{Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
		if to == "slow.test:80" {
			close(dialling)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var d net.Dialer
		return d.DialContext(ctx, network, to)
	}})
	conn, err := c.Dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Do(context.Background(), request("GET", "http://slow.test/", ""))
		failed <- err
	}()
	<-dialling
	c.Close()
	c.Close()
	if e := failure(t, <-failed); e.Cause != Canceled {
		t.Errorf("a dial under way: %v: %v", e.Cause, e)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read on a connection: %v", err)
	}
	if _, err := c.Dial(t.Context(), "tcp", address); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after Close: %v", err)
	}
	if n := metricValue(t, c.dialer.metrics.connections); n != 0 {
		t.Errorf("%v connections stay", n)
	}
}
