package egress

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request is what goes to a target. Sending does not change it.
type Request struct {
	// Method is any but CONNECT.
	Method string
	// URL is absolute, and its scheme http or https. Who may be called is the guard's to say; user
	// information is not sent.
	URL string
	// Header gives the fields in the order in which they go out, under the names as they are spelled; nil
	// for none. It is asked once for each time the request is sent. A field that OfConnection is not
	// a request's to set, and makes it unsendable.
	Header iter.Seq2[string, string]
	// Body goes out as it is; empty means none. It must not change until the answer's body is closed.
	Body []byte
	// Deadline ends the exchange, the answer's body included. The zero Deadline is none.
	Deadline time.Time
}

// OfConnection reports whether a header field belongs to one connection or frames one message, so that
// only who writes it there can set it: RFC 9110, 7.6.1 and 8.6, and Expect, whose answer comes from
// the next hop.
func OfConnection(name string) bool {
	switch len(name) {
	case len("TE"):
		return fold(name, "TE")
	case len("Host"):
		return fold(name, "Host")
	case len("Expect"):
		return fold(name, "Expect")
	case len("Trailer"):
		return fold(name, "Trailer") || fold(name, "Upgrade")
	case len("Connection"):
		return fold(name, "Connection") || fold(name, "Keep-Alive")
	case len("Content-Length"):
		return fold(name, "Content-Length") || fold(name, "HTTP2-Settings")
	case len("Transfer-Encoding"):
		if fold(name, "Transfer-Encoding") {
			return true
		}
	}
	const proxy = "Proxy-"
	return len(name) > len(proxy) && fold(name[:len(proxy)], proxy)
}

// fold compares header names. Most differ in length already.
func fold(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

var (
	errMethod = errors.New("the method is not one that can be sent")
	errScheme = errors.New("the scheme of the URL must be http or https")
	errHost   = errors.New("the URL has no host")
	errURL    = errors.New("the URL has a control character")
)

// target returns where the request goes.
func (r *Request) target() (*url.URL, error) {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errScheme
	case u.Host == "":
		return nil, errHost
	case !httpguts.ValidHeaderFieldName(r.Method) || r.Method == http.MethodConnect:
		return nil, errMethod
	}
	u.Host = strings.TrimSuffix(u.Host, ":") // RFC 3986, 6.2.3: an empty port is none
	return u, nil
}

// checkField refuses what would make the head say something else than the caller meant. The error does
// not tell the value, which may be a secret.
func checkField(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("invalid header name %q", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("invalid value of header %q", name)
	case OfConnection(name):
		return fmt.Errorf("header %q is not a request's to set", name)
	default:
		return nil
	}
}

// header returns the fields as net/http has them.
func (r *Request) header() (http.Header, error) {
	const agent = "User-Agent"
	h := make(http.Header)
	if r.Header != nil {
		for name, value := range r.Header {
			if err := checkField(name, value); err != nil {
				return nil, err
			}
			h[name] = append(h[name], value)
		}
	}
	if _, ok := h[agent]; !ok {
		h[agent] = []string{""} // else the transport adds its own
	}
	return h, nil
}

// safe reports whether a request of this method may be sent twice (RFC 9110, 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	default:
		return false
	}
}

// plainAddress returns the host and port that a URL leads to over plain HTTP, in lower case; "" if that is
// not what it does, or if its host has characters that ask for more than that.
func plainAddress(u *url.URL) string {
	if u.Scheme != "http" || u.Opaque != "" {
		return ""
	}
	for i := range len(u.Host) {
		switch c := u.Host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			return ""
		}
	}
	if u.Port() == "" {
		return net.JoinHostPort(strings.ToLower(u.Hostname()), "80")
	}
	return strings.ToLower(u.Host)
}
