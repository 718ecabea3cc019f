package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestCauses lets real servers on the loopback misbehave.
func TestCauses(t *testing.T) {
	after := func(answer string) func(*connection) {
		return func(c *connection) {
			if req, _ := c.next(); req != nil {
				c.say(answer)
			}
		}
	}
	for name, tt := range map[string]struct {
		handle func(*connection)
		want   Cause
		sent   bool
	}{
		"closed after request":  {after(""), Closed, true},
		"reset after request":   {func(c *connection) { _, _ = c.next(); c.reset() }, Reset, true},
		"garbage":               {after("SSH-2.0-OpenSSH_9.9\r\n\r\n"), Protocol, true},
		"bad status":            {after("HTTP/1.1 2x0 OK\r\n\r\n"), Protocol, true},
		"bad header":            {after("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), Protocol, true},
		"two lengths":           {after("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), Protocol, true},
		"half a status line":    {after("HTTP/1.1 20"), Protocol, true},
		"half a header":         {after("HTTP/1.1 200 OK\r\nX: y\r\n"), Truncated, true},
		"huge header":           {after("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", defaultHeaderBytes) + "\r\n\r\n"), HeaderTooLarge, true},
		"endless header":        {endlessHeader, HeaderTooLarge, true},
		"short body":            {after("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), Truncated, true},
		"no body at all":        {after("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), Truncated, true},
		"chunks without an end": {after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), Truncated, true},
		"half a chunk":          {after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello"), Truncated, true},
		"bad chunk length":      {after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n"), Protocol, true},
		"unsupported encoding":  {after("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), Protocol, true},
		"endless informational": {endlessHints, HeaderTooLarge, true},
		"switching protocols":   {after("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), Protocol, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachPath(t, func(t *testing.T, p path) {
				_, _, err := fetch(t.Context(), p.to(t, Config{}), request("POST", p.serve(t, tt.handle), "payload"))
				if e := failure(t, err); e.Cause != tt.want || e.Sent != tt.sent {
					t.Errorf("cause %v, sent %v, want %v, %v: %v", e.Cause, e.Sent, tt.want, tt.sent, e)
				}
			})
		})
	}
}

func endlessHeader(c *connection) {
	if req, _ := c.next(); req != nil {
		c.say("HTTP/1.1 200 OK\r\n")
		endless(c, "X: y\r\n")
	}
}

func endlessHints(c *connection) {
	if req, _ := c.next(); req != nil {
		endless(c, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n")
	}
}

// endless writes until the client has gone.
func endless(c *connection, s string) {
	for {
		if _, err := io.WriteString(c, s); err != nil {
			return
		}
	}
}

func TestCauseResetWithinTheBody(t *testing.T) { eachPath(t, testCauseResetWithinTheBody) }

func testCauseResetWithinTheBody(t *testing.T, p path) {
	headerRead := make(chan struct{})
	url := p.serve(t, func(c *connection) {
		if req, _ := c.next(); req != nil {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			<-headerRead
			c.reset()
		}
	})
	resp, err := p.to(t, Config{}).Do(t.Context(), request("POST", url, "x"))
	close(headerRead)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = ReadBody(resp, -1, nil); failure(t, err).Cause != Reset || !failure(t, err).Sent {
		t.Errorf("error is %#v", err)
	}
}

// breaking is a connection that is reset where the other side closes it.
type breaking struct{ net.Conn }

func (c breaking) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return n, err
}

// The transport calls a header that was cut malformed.
func TestCauseResetWithinTheHeader(t *testing.T) { eachPath(t, testCauseResetWithinTheHeader) }

func testCauseResetWithinTheHeader(t *testing.T, p path) {
	for _, part := range []string{"HTTP/", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Len"} {
		url := p.serve(t, func(c *connection) {
			if req, _ := c.next(); req != nil {
				c.say(part)
				c.cut()
			}
		})
		cl := p.to(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return breaking{c}, err
		}})
		_, err := cl.Do(t.Context(), request("POST", url, "x"))
		if e := failure(t, err); e.Cause != Reset || !e.Sent {
			t.Errorf("after %q: cause %v, sent %v: %v", part, e.Cause, e.Sent, e)
		}
	}
}

// A server that closes at once may do so before or after the request was written.
func TestCauseClosedAtOnce(t *testing.T) { eachPath(t, testCauseClosedAtOnce) }

func testCauseClosedAtOnce(t *testing.T, p path) {
	_, err := p.to(t, Config{}).Do(t.Context(), request("POST", p.serve(t, func(*connection) {}), "x"))
	if e := failure(t, err); e.Cause != Closed && e.Cause != Reset {
		t.Errorf("cause %v: %v", e.Cause, e)
	}
}

func TestCauseRefused(t *testing.T) { eachPath(t, testCauseRefused) }

func testCauseRefused(t *testing.T, p path) {
	c := p.to(t, Config{})
	_, err := c.Do(t.Context(), request("POST", p.url("127.0.0.1:1"), "x")) // a port that the system gives to nobody
	if e := failure(t, err); e.Cause != Refused || e.Sent {
		t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
	}
}

func TestCauseTLS(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "right.test")
	wantsCert := serverTLS.Clone()
	wantsCert.ClientAuth, wantsCert.NextProtos = tls.RequireAnyClientCert, nil
	plain := strings.TrimPrefix(rawServer(t, func(c *connection) { _, _ = c.r.ReadByte(); c.say("HTTP/1.0 400 Bad Request\r\n\r\n") }), "http://")
	mute := strings.TrimPrefix(rawServer(t, func(c *connection) { _, _ = c.r.ReadByte() }), "http://")
	secure := func(cfg *tls.Config) string {
		return strings.TrimPrefix(rawServer(t, func(c *connection) {
			s := tls.Server(c.Conn, cfg)
			_ = s.Handshake()
			_, _ = s.Read(make([]byte, 1))
		}), "http://")
	}
	for name, tt := range map[string]struct {
		address, host string
		cfg           *tls.Config
		sent          bool
	}{
		"plain server":        {plain, "right.test", clientTLS, false},
		"closes at hello":     {mute, "right.test", clientTLS, false},
		"unknown authority":   {secure(serverTLS), "right.test", nil, false},
		"wrong name":          {secure(serverTLS), "wrong.test", clientTLS, false},
		"wants a certificate": {secure(wantsCert), "right.test", clientTLS, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, Config{TLS: tt.cfg, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, tt.address)
			}})
			_, err := c.Do(t.Context(), request("POST", "https://"+tt.host, "x"))
			if e := failure(t, err); e.Cause != TLS || (e.Sent && !tt.sent) {
				t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
			}
		})
	}
}

func TestCausesOfTime(t *testing.T) {
	for url, tt := range map[string]struct {
		limit time.Duration // of the request
		want  Cause
		sent  bool
	}{
		"http://never.test/":    {0, ConnectTimeout, false},
		"https://never.test/":   {0, ConnectTimeout, false},
		"http://never.test/2":   {time.Second, ConnectTimeout, false},
		"https://never.test/2":  {time.Second, ConnectTimeout, false},
		"https://mute.test/":    {0, ConnectTimeout, false},
		"https://mute.test/2":   {time.Second, ConnectTimeout, false},
		"http://mute.test/":     {time.Minute, Timeout, true},
		"http://trickle.test/":  {time.Hour, Timeout, true},
		"http://mute.test/late": {-time.Second, ConnectTimeout, false},
	} {
		for by, bound := range map[string]func(context.Context, *Request, time.Duration) context.Context{
			"request": func(ctx context.Context, r *Request, limit time.Duration) context.Context {
				r.Deadline = time.Now().Add(limit)
				return ctx
			},
			"context": func(ctx context.Context, r *Request, limit time.Duration) context.Context {
				ctx, cancel := context.WithTimeout(ctx, limit)
				r.Deadline = time.Now().Add(24 * time.Hour)
				context.AfterFunc(ctx, cancel)
				return ctx
			},
		} {
			t.Run(url+" by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, err := New(Config{Dial: timeWasters(t)})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					ctx, r, start := t.Context(), request("POST", url, "x"), time.Now()
					if tt.limit != 0 {
						ctx = bound(ctx, &r, tt.limit)
					}
					_, _, err = fetch(ctx, c, r)
					e := failure(t, err)
					if e.Cause != tt.want || e.Sent != tt.sent {
						t.Errorf("cause %v, sent %v, want %v, %v: %v", e.Cause, e.Sent, tt.want, tt.sent, e)
					}
					if !errors.Is(e, context.DeadlineExceeded) && tt.limit != 0 {
						t.Errorf("error is %v", e)
					}
					if took, want := time.Since(start), max(0, cmp.Or(tt.limit, defaultDialTimeout)); took != want {
						t.Errorf("took %v, want %v", took, want)
					}
				})
			})
		}
	}
}

// timeWasters is a network of hosts that never answer a dial, never say a word, or say too little.
func timeWasters(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		if host == "never.test" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		near, far := net.Pipe()
		gone := make(chan struct{})
		asked := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = far.Read(make([]byte, 1))
			close(asked)
			_, _ = io.Copy(io.Discard, far)
		}()
		go func() {
			<-gone
			_ = far.Close()
		}()
		if host == "trickle.test" {
			go func() {
				<-asked
				_, err := io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
				for err == nil {
					select {
					case <-time.After(3 * time.Second):
						_, err = far.Write([]byte("x"))
					case <-gone:
						return
					}
				}
			}()
		}
		return near, nil
	}
}

func TestCauseCanceledIsNotTimeout(t *testing.T) { eachPath(t, testCauseCanceledIsNotTimeout) }

func testCauseCanceledIsNotTimeout(t *testing.T, p path) {
	for _, path := range []string{"/header", "/body"} {
		reading := make(chan struct{})
		url := p.serve(t, func(c *connection) {
			if req, _ := c.next(); req != nil {
				if path == "/body" {
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
				}
				close(reading)
				_, _ = c.r.ReadByte()
			}
		})
		c := p.to(t, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		go func() {
			<-reading
			cancel()
		}()
		_, _, err := fetch(ctx, c, request("POST", url+path, "x"))
		if e := failure(t, err); e.Cause != Canceled || !e.Sent || !errors.Is(e, context.Canceled) {
			t.Errorf("%s: cause %v, sent %v: %v", path, e.Cause, e.Sent, e)
		}
	}
}

// A request that HTTP/2 refuses to send leaves its connection as it was: trying it again would never
// end.
func TestTooLargeForTheTarget(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.EnableHTTP2, srv.Config.MaxHeaderBytes = true, 1024
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c := client(t, Config{TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
	if _, _, err := fetch(t.Context(), c, request("POST", srv.URL, "x")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(t.Context(), request("POST", srv.URL, "x", "X", strings.Repeat("x", 100_000)))
	if e := failure(t, err); e.Cause != Protocol {
		t.Errorf("cause %v: %v", e.Cause, e)
	}
}

// A safe method that goes again may find nobody; it was sent all the same.
func TestSafeMethodThatGoesAgainInVain(t *testing.T) { eachPath(t, testSafeMethodThatGoesAgainInVain) }

func testSafeMethodThatGoesAgainInVain(t *testing.T, p path) {
	gone := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(gone)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		if p.server != nil {
			nc = tls.Server(nc, p.server)
		}
		c := newConnection(nc, 1)
		_, _ = c.next()
		c.say(okAnswer)
		_, _ = c.next()
		_ = l.Close()
		_ = nc.Close()
	}()
	c := p.to(t, Config{})
	url := p.url(l.Addr().String())
	if _, _, err := fetch(t.Context(), c, request("GET", url, "")); err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), request("GET", url, ""))
	if e := failure(t, err); e.Cause != Refused || !e.Sent {
		t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
	}
	<-gone
}

func TestCausesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Causes() {
		if s := c.String(); s == "" || s == "unknown" || seen[s] {
			t.Errorf("cause %d is named %q", c, s)
		}
		seen[c.String()] = true
	}
	if s := Cause(200).String(); s != "unknown" {
		t.Errorf("an unknown cause is named %q", s)
	}
}
