// Package egress is the only way out of the node: every outgoing HTTP request goes through a Client.
//
// A Client connects to nothing that its Guard refuses, whatever the address looks like; it follows no
// redirect unless told to, adds no header that the caller did not set, decodes nothing, and asks no
// proxy. A request that may have been read by its target is not sent a second time, except by the
// methods that HTTP calls safe; one that was certainly not read is, with its whole body. Every
// failure is an *Error with one of a closed set of causes.
//
// It does not retry, does not pace and knows nothing about jobs. There is no time limit but the one
// of the request's context.
package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how a Client connects. The zero Config is usable.
type Config struct {
	// Public refuses private, loopback and other addresses that are not globally reachable, besides
	// those that are refused always.
	Public bool
	// Allow lists exemptions from the guard: CIDRs, addresses and host names.
	Allow []string
	// Dial connects in place of the system; the guard checks the address before it and the
	// connection's remote address after it. It resolves names itself.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver looks names up for the system's dialer; nil for the system's own.
	Resolver *net.Resolver
	// TLS is the configuration of secure connections; nil for the system's roots.
	TLS *tls.Config
	// DialTimeout bounds a connection's set-up, name look-up included, and once more its TLS
	// handshake; 0 means 10 s.
	DialTimeout time.Duration
	// MaxConnsPerHost bounds the connections to one host and port; 0 means no bound. With one,
	// requests wait for a connection when the target is slow.
	MaxConnsPerHost int
	// ResponseHeaderBytes bounds the header of an answer; 0 means 64 KiB.
	ResponseHeaderBytes int64
	// FollowRedirects is how many redirects a request follows, at most 5. With 0 the redirect is
	// the answer.
	FollowRedirects int
	// Secret tells the headers that must not follow a redirect to another scheme, host or port. It
	// is required with FollowRedirects.
	Secret func(header string) bool
	// HopAllowed tells whether a redirect to a host may be followed; nil allows every host that the
	// guard agrees with. A redirect that may not be followed is the answer.
	HopAllowed func(host string) bool
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

// The pool of idle connections is as large as the concurrency that a node reaches, because a new
// connection costs twice as much as a request. More idle connections cost memory and descriptors.
const (
	maxIdleConns        = 1024
	maxIdleConnsPerHost = 256
	idleConnTimeout     = 90 * time.Second
)

const (
	defaultDialTimeout   = 10 * time.Second
	defaultHeaderBytes   = 64 << 10
	maxFollowedRedirects = 5
	writeBufferBytes     = 4 << 10
	readBufferBytes      = 4 << 10
)

// HTTP/2 connections are asked for a sign of life when nothing came for a while: with a lower value
// a dead one is found sooner, but targets that count pings may close the connection.
const (
	pingAfter   = 15 * time.Second
	pingTimeout = 15 * time.Second
)

// Client sends requests. It is safe for concurrent use.
type Client struct {
	dialer *dialer
	routes *routes
	follow redirects
}

// New returns a client; it connects to nothing yet. The error names what in cfg is wrong.
func New(cfg Config) (*Client, error) {
	guard, err := NewGuard(cfg.Public, cfg.Allow)
	if cfg.FollowRedirects < 0 || cfg.FollowRedirects > maxFollowedRedirects {
		err = errors.Join(err, errors.New("egress must follow 0 to 5 redirects"))
	}
	if cfg.FollowRedirects > 0 && cfg.Secret == nil {
		err = errors.Join(err, errors.New("egress must know the secret headers to follow redirects"))
	}
	m, merr := newMetrics(cfg.Registerer)
	if err := errors.Join(err, merr); err != nil {
		return nil, err
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.ResponseHeaderBytes == 0 {
		cfg.ResponseHeaderBytes = defaultHeaderBytes
	}
	c := &Client{
		dialer: newDialer(cfg, guard, m),
		follow: redirects{max: cfg.FollowRedirects, secret: cfg.Secret, allowed: cfg.HopAllowed},
	}
	c.routes = newRoutes(func() *http.Transport { return newTransport(cfg, c.dialer) }, m)
	return c, nil
}

func newTransport(cfg Config, d *dialer) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  refuseSecondSend,
		DialContext:            d.dial,
		TLSClientConfig:        tlsConfig(cfg.TLS),
		TLSHandshakeTimeout:    cfg.DialTimeout,
		DisableCompression:     true,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: cfg.ResponseHeaderBytes,
		WriteBufferSize:        writeBufferBytes,
		ReadBufferSize:         readBufferBytes,
		Protocols:              &protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

func tlsConfig(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return base.Clone()
}

// WithoutRedirects returns a client for which a redirect is the answer. It shares everything else with
// c, connections and Close included.
func (c *Client) WithoutRedirects() *Client {
	return &Client{dialer: c.dialer, routes: c.routes}
}

// Dial opens a guarded connection for a protocol other than HTTP. It ends with Close at the latest.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dialer.dial(ctx, network, address)
}

// errSwitched: nobody asked for another protocol, and what follows is not an answer.
var errSwitched = errors.New("the target switched to another protocol unasked")

// Do sends a request and returns the answer's header, and its body to be read with ReadBody. A
// request with a body must have GetBody, as http.NewRequest sets it. Every error is an *Error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	a := begin(req.Context(), c)
	for followed := 0; ; followed++ {
		resp, err := a.send(req)
		if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
			err = errors.Join(errSwitched, resp.Body.Close())
		}
		if err != nil {
			return nil, a.fail(err)
		}
		next := c.follow.next(req, resp, followed)
		if next == nil {
			return resp, nil
		}
		drain(resp)
		req = next
	}
}

// Close ends every connection for good, also those in use. Call it when no request is under way.
func (c *Client) Close() {
	c.routes.closeIdle()
	c.dialer.shut()
}
