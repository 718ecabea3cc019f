package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func tcp(address string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err) // a test wrote what is no address
	}
	return a
}

// A caller learns why an attempt failed, and no address but those in his own URL: neither what a name
// resolves to, nor who resolves it, nor from where the node calls.
func TestReasonsNameNoAddress(t *testing.T) {
	near, far := tcp("10.0.0.3:5123"), tcp("10.9.9.9:443")
	refused := &net.OpError{Op: "dial", Net: "tcp", Source: near, Addr: far, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: near, Addr: far, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	lookup := func(e net.DNSError) error {
		e.Name, e.Server = "api.example", "10.0.0.2:53"
		return &net.OpError{Op: "dial", Net: "tcp", Err: &e}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{refused, "dial tcp: connect: connection refused"},
		{reset, "read tcp: read: connection reset by peer"},
		{fmt.Errorf("transport connection broken: %w", reset), "transport connection broken: read tcp: read: connection reset by peer"},
		{lookup(net.DNSError{Err: "no such host", IsNotFound: true}), "dial tcp: lookup api.example: no such host"},
		{lookup(net.DNSError{Err: "server misbehaving", IsTemporary: true}), "dial tcp: lookup api.example: server misbehaving"},
		{lookup(net.DNSError{Err: "read udp 10.0.0.3:4321->10.0.0.2:53: i/o timeout", IsTimeout: true}), "dial tcp: lookup api.example: i/o timeout"},
		{lookup(net.DNSError{Err: "dial udp 10.0.0.2:53: connect: network is unreachable", IsTemporary: true}), "dial tcp: lookup api.example: the resolver cannot be reached"},
		{errors.New("malformed HTTP response"), "malformed HTTP response"},
	} {
		for _, err := range []error{tt.err, errors.Join(tt.err), fmt.Errorf("%w", tt.err)} {
			o := Outcome{}
			o.fail(&egress.Error{Cause: egress.Reset, Err: err}, 0)
			if got := o.Reason(); got != tt.want {
				t.Errorf("%v\n got %q\nwant %q", err, got, tt.want)
			}
		}
	}
}

func TestReasonsOfRealFailures(t *testing.T) {
	const nobody = "http://127.0.0.1:1" // a port that the system gives to nobody
	silent := newTarget(t, always(""))
	nonsense := newTarget(t, always("nonsense\r\n\r\n"))
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 53}, Err: syscall.ENETUNREACH}
	}}
	d := dispatcher(t, egress.Config{Resolver: resolver}, 0)
	for url, class := range map[string]job.ErrorClass{
		nobody: job.ConnectRefused, silent.url: job.ConnClosed, nonsense.url: job.ProtocolError, "http://name.test/": job.DNS,
	} {
		o, _ := d.Do(t.Context(), Call{Method: "POST", URL: url, Timeout: time.Minute})
		if o.Class != class {
			t.Errorf("%s: class %s, want %s", url, o.Class, class)
		}
		for _, part := range []string{"127.0.0.1", "10.0.0.2", "->", ":53"} {
			if strings.Contains(o.Reason(), part) {
				t.Errorf("%s: reason %q", url, o.Reason())
			}
		}
	}
}
