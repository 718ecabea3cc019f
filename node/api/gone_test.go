package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/proxy"
)

// A caller that has closed its half of the connection counts as gone. If it reads on, it must not take nothing for an answer.
func TestAHalfClosedCallerGetsNoAnswer(t *testing.T) {
	for path, body := range map[string]string{"/proxy": valid, "/jobs": valid} {
		f := newFake()
		f.registry = prometheus.NewRegistry()
		f.submit = func(ctx context.Context, _ intake.Submission) (intake.Receipt, error) {
			<-ctx.Done()
			return intake.Receipt{}, ctx.Err()
		}
		server := httptest.NewServer(f.handler(func(c *api.Config) {
			c.Proxy = tries(func(ctx context.Context, _ intake.Submission) (proxy.Result, error) {
				<-ctx.Done()
				return proxy.Result{}, ctx.Err()
			})
		}))
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(c); len(got) > 0 { // a reset is as good as an end
			t.Errorf("%s answers %q", path, got)
		}
		_ = c.Close()
		server.Close()
	}
}
