package egress

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestCausesHTTP2 has servers that speak HTTP/2 and misbehave in its own ways.
func TestCausesHTTP2(t *testing.T) {
	for name, tt := range map[string]struct {
		handle http.HandlerFunc
		want   Cause
	}{
		"stream reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Reset},
		"stream reset in the body": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("some"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, Reset},
		"huge field": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*defaultHeaderBytes))
		}, HeaderTooLarge},
		"many fields": {func(w http.ResponseWriter, _ *http.Request) {
			for range 2 * defaultHeaderBytes / 1024 {
				w.Header().Add("X", strings.Repeat("x", 1024))
			}
		}, HeaderTooLarge},
		"short body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("short"))
		}, Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(tt.handle)
			srv.EnableHTTP2 = true
			srv.StartTLS()
			t.Cleanup(srv.Close)
			c := client(t, Config{TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
			_, _, err := fetch(t.Context(), c, request("POST", srv.URL, "x"))
			if e := failure(t, err); e.Cause != tt.want || !e.Sent {
				t.Errorf("cause %v, sent %v, want %v: %v", e.Cause, e.Sent, tt.want, e)
			}
		})
	}
}

// TestCausesHTTP2Connection ends the connection rather than the stream.
func TestCausesHTTP2Connection(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "h2.test")
	for name, tt := range map[string]struct {
		end  func(*http2.Framer, io.Closer)
		want Cause
	}{
		"closed":         {func(_ *http2.Framer, c io.Closer) { _ = c.Close() }, Closed},
		"goaway":         {func(f *http2.Framer, c io.Closer) { _ = f.WriteGoAway(1, http2.ErrCodeNo, nil); _ = c.Close() }, Closed},
		"protocol error": {func(f *http2.Framer, _ io.Closer) { _ = f.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte("bad")) }, Protocol},
		"refused for good": {func(f *http2.Framer, c io.Closer) {
			_ = f.WriteRSTStream(1, http2.ErrCodeInternal)
		}, Reset},
	} {
		t.Run(name, func(t *testing.T) {
			url := rawServer(t, func(c *connection) { serveFrames(tls.Server(c.Conn, serverTLS), tt.end) })
			address := strings.TrimPrefix(url, "http://")
			c := client(t, Config{TLS: clientTLS, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, address)
			}})
			_, err := c.Do(t.Context(), request("POST", "https://h2.test/", "x"))
			if e := failure(t, err); e.Cause != tt.want || !e.Sent {
				t.Errorf("cause %v, sent %v, want %v: %v", e.Cause, e.Sent, tt.want, e)
			}
		})
	}
}

// serveFrames reads one request and then lets end do its worst.
func serveFrames(c *tls.Conn, end func(*http2.Framer, io.Closer)) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
			end(f, c)
		}
	}
}
