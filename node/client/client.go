// Package client is the Go client of a node's HTTP face.
//
// It speaks to a node over any http.RoundTripper; InProcess makes one that calls a handler without a
// socket. Every method that asks a node once does so once: repeating is the caller's decision, and
// safe for Submit, whose key makes a job the same job. Watch alone comes back by itself, since a
// stream is resumed where it broke.
//
// What a node refuses comes back as an *Error, in which errors.As finds the *fault.Error too.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
)

// Defaults of a Client.
const (
	DefaultMaxBytes   = 64 << 20
	DefaultReconnects = 8
)

// Client talks to one node, or to a gateway in front of many. Its fields may be set before first
// use; then it is safe for concurrent use.
type Client struct {
	// MaxBytes bounds one answer and one event of a stream.
	MaxBytes int
	// Reconnects is how many attempts in a row to resume a stream may fail.
	Reconnects int

	base      string
	transport http.RoundTripper
}

// New returns a client of the node at baseURL, such as http://localhost:8080.
func New(baseURL string, transport http.RoundTripper) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("base URL must be http:// or https:// with a host and without a query, got %q", baseURL)
	}
	return &Client{
		MaxBytes: DefaultMaxBytes, Reconnects: DefaultReconnects,
		base: strings.TrimSuffix(u.String(), "/"), transport: transport,
	}, nil
}

// request is one request to the node.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any // sent as JSON unless nil
}

// send sends a request and returns the answer whatever its status; the caller closes its body.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	target := c.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		raw, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	return resp, nil
}

// call sends a request, wants a 2xx, and decodes the JSON of the answer into out.
func (c *Client) call(ctx context.Context, q request, out any) (_ http.Header, err error) {
	resp, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode/100 != 2 {
		return nil, c.refused(q, resp)
	}
	raw, err := c.read(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("%s %s: answer: %w", q.method, q.path, err)
	}
	return resp.Header, nil
}

// read reads a whole answer.
func (c *Client) read(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(c.MaxBytes)+1))
	if err == nil && len(raw) > c.MaxBytes {
		err = fmt.Errorf("the answer is larger than %d bytes", c.MaxBytes)
	}
	return raw, err
}

// header reads a header of the protocol, which has two names.
func header(h http.Header, name string) string {
	if v := h.Get("X-Aqueduct-" + name); v != "" {
		return v
	}
	return h.Get("X-Aquifer-" + name)
}
