package egress

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// redirects says which redirects are followed, and how.
type redirects struct {
	max     int
	secret  func(header string) bool
	allowed func(host string) bool // nil: every host
}

// next returns the request that follows a redirect, nil if the answer stands: it is no redirect,
// the limit is reached, or the redirect cannot or must not be followed.
func (r redirects) next(req *http.Request, resp *http.Response, followed int) *http.Request {
	if followed >= r.max || !redirected(resp.StatusCode) {
		return nil
	}
	to := location(req.URL, resp.Header.Get("Location"))
	if to == nil || (r.allowed != nil && !r.allowed(to.Hostname())) {
		return nil
	}
	next := &http.Request{
		Method: req.Method, URL: to, Header: req.Header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if !origin(req.URL, to) {
		drop(next.Header, r.secret)
	}
	if method := methodAfter(req.Method, resp.StatusCode); method != req.Method {
		next.Method = method
		drop(next.Header, describesBody)
		return next
	}
	return withBody(next, req)
}

// redirected reports whether the status asks for another request (RFC 9110, 15.4).
func redirected(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// location returns where a redirect leads; nil if that is not an http or https URL.
func location(from *url.URL, header string) *url.URL {
	if header == "" {
		return nil
	}
	to, err := from.Parse(header)
	if err != nil || (to.Scheme != "http" && to.Scheme != "https") || to.Hostname() == "" {
		return nil
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to
}

// methodAfter is the rule of browsers (Fetch standard, HTTP-redirect fetch, step 12): 303 turns
// everything but GET and HEAD into GET, 301 and 302 turn POST into GET.
func methodAfter(method string, status int) string {
	switch status {
	case http.StatusSeeOther:
		if method != http.MethodHead {
			return http.MethodGet
		}
	case http.StatusMovedPermanently, http.StatusFound:
		if method == http.MethodPost {
			return http.MethodGet
		}
	}
	return method
}

// withBody gives next the body of req and returns it; nil if the body cannot be had again.
func withBody(next, req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return next
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	next.Body, next.GetBody, next.ContentLength = body, req.GetBody, req.ContentLength
	return next
}

// origin reports whether both URLs have the same scheme, host and port: another port is another
// server, which must not see what is meant for the first.
func origin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

func drop(h http.Header, which func(name string) bool) {
	for name := range h {
		if which(name) {
			delete(h, name)
		}
	}
}

func describesBody(name string) bool {
	return len(name) >= 8 && strings.EqualFold(name[:8], "content-")
}

// maxDrained is how much of a redirect's body is read so that its connection can be used again.
const maxDrained = 2 << 10

func drain(resp *http.Response) {
	if resp.ContentLength <= maxDrained {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrained)
	}
	_ = resp.Body.Close()
}
