// Package egress is the only way out of the node: every outgoing HTTP request goes through a Client.
//
// A Client connects to nothing that its Guard refuses, whatever the address looks like; it follows no
// redirect unless told to, adds no header that the caller did not set, decodes nothing, and asks no
// proxy. A request that may have been read by its target is not sent a second time, except by the
// methods that HTTP calls safe; one that was certainly not read is, with its whole body. Every
// failure is an *Error with one of a closed set of causes.
//
// A request takes one of two paths. Over https it goes through net/http's Transport, which knows TLS
// and HTTP/2; so does whatever is unusual about an http URL. All other plain HTTP/1.1 goes over links,
// because the Transport spends most of its time in handing each request to one goroutine and its
// answer to another: here the caller's own goroutine writes the request, waits, and reads the answer,
// at about a third of the cost. How an answer is understood is net/http's business on both paths
// (http.ReadResponse), but for heads in which there is nothing to understand, and the same tests hold both.
//
// It does not retry, does not pace and knows nothing about jobs. There is no time limit but those of
// the request and of its context.
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
	// connection's remote address after it. It resolves names itself. Its connections must honour
	// deadlines, and end reads and writes when they are closed.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver looks names up for the system's dialer; nil for the system's own.
	Resolver *net.Resolver
	// TLS is the configuration of secure connections; nil for the system's roots.
	TLS *tls.Config
	// DialTimeout bounds a connection's set-up, name look-up included, and once more its TLS
	// handshake; 0 means 10 s.
	DialTimeout time.Duration
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
	// MaxIdleConns bounds the idle connections of each of the client's pools; 0 means 1024, and more is
	// not kept either.
	MaxIdleConns int
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
)

// Client sends requests. It is safe for concurrent use.
type Client struct {
	dialer *dialer
	links  *links
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
	if cfg.MaxIdleConns == 0 || cfg.MaxIdleConns > maxIdleConns {
		cfg.MaxIdleConns = maxIdleConns
	}
	c := &Client{
		dialer: newDialer(cfg, guard, m),
		follow: redirects{max: cfg.FollowRedirects, secret: cfg.Secret, allowed: cfg.HopAllowed},
	}
	c.links = newLinks(cfg, c.dialer)
	c.routes = newRoutes(func() *http.Transport { return newTransport(cfg, c.dialer) }, m)
	return c, nil
}

// WithoutRedirects returns a client for which a redirect is the answer. It shares everything else with
// c, connections and Close included.
func (c *Client) WithoutRedirects() *Client {
	same := *c
	same.follow = redirects{}
	return &same
}

// Dial opens a guarded connection for a protocol other than HTTP. It ends with Close at the latest.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Do sends a request and returns the answer's status, header, and its body, which is to be closed; see
// ReadBody. One goroutine at a time may use the body. Every error is an *Error, those of reading the
// body too.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	u, err := r.target()
	if err != nil {
		return nil, &Error{Cause: Unsendable, Err: err}
	}
	a := begin(ctx, c, r, u)
	for followed := 0; ; followed++ {
		resp, err := a.send()
		if err != nil {
			return nil, a.fail(err)
		}
		next, to := c.follow.next(a.request, a.url, resp)
		if to == nil || followed == c.follow.max {
			return resp, nil
		}
		drain(resp)
		a.request, a.url = next, to
	}
}

// Close ends every connection for good, also those in use. Call it when no request is under way.
func (c *Client) Close() {
	c.dialer.shut()
	c.links.close()
	c.routes.closeIdle()
}
