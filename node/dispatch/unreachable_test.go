package dispatch

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// answering is a connection whose other end reads a request, says this and closes.
func answering(text string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		if _, err := far.Read(make([]byte, 4096)); err == nil {
			_, _ = io.WriteString(far, text)
		}
	}()
	return near
}

// hosts dials hosts that behave as their names say.
func hosts(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := strings.Cut(address, ".")
	switch host {
	case "refused":
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	case "nameless":
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}}
	case "never":
		<-ctx.Done()
		return nil, ctx.Err()
	case "mute":
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		return near, nil
	case "closing":
		return answering(""), nil
	case "elsewhere":
		return answering("HTTP/1.1 307 X\r\nLocation: http://refused.test/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), nil
	default:
		return answering("HTTP/1.1 503 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), nil
	}
}

// Only an attempt that had the time to connect and could not tells that a target cannot be reached.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := egress.New(egress.Config{Dial: hosts, FollowRedirects: 1, Secret: job.Secret})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d := New(Config{Client: c})
		for _, tt := range []struct {
			url   string
			limit time.Duration
			class job.ErrorClass
			want  bool
		}{
			{"http://refused.test/", 0, job.ConnectRefused, true},
			{"http://refused.test/", time.Millisecond, job.ConnectRefused, true},
			{"http://nameless.test/", 0, job.DNS, true},
			{"http://never.test/", 0, job.ConnectTimeout, true},
			{"http://never.test/", time.Second, job.ConnectTimeout, true},
			{"http://never.test/", 900 * time.Millisecond, job.ConnectTimeout, false},
			{"https://busy.test/", 0, job.TLS, true},
			{"http://busy.test/", 0, "", false},
			{"http://mute.test/", time.Minute, job.Timeout, false},
			{"http://closing.test/", 0, job.ConnClosed, false},
			{"http://elsewhere.test/", 0, job.ConnectRefused, false}, // the target answered
			{"http://169.254.169.254/", 0, job.BlockedTarget, false},
			{"http://refused.test/\x00", 0, job.Internal, false},
		} {
			o, s := d.Do(t.Context(), Call{Method: "POST", URL: tt.url, Timeout: tt.limit})
			if o.Class != tt.class || s.Unreachable != tt.want {
				t.Errorf("%s within %v: %q, unreachable %v", tt.url, tt.limit, o.Class, s.Unreachable)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if o, s := d.Do(ctx, Call{Method: "POST", URL: "http://never.test/"}); !o.Canceled() || s.Unreachable {
			t.Errorf("cut by the node: %+v", o)
		}
	})
}
