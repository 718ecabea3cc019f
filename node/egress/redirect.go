package egress

import (
	"io"
	"iter"
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

// next returns the request that follows a redirect, and where it goes; nil if the answer stands: it is
// no redirect, or the redirect cannot or must not be followed.
func (r redirects) next(req Request, from *url.URL, resp *http.Response) (Request, *url.URL) {
	if r.max == 0 || !redirected(resp.StatusCode) {
		return Request{}, nil
	}
	to := location(from, resp.Header.Get("Location"))
	if to == nil || (r.allowed != nil && !r.allowed(to.Hostname())) {
		return Request{}, nil
	}
	if !origin(from, to) {
		req.Header = without(req.Header, r.secret)
	}
	if method := methodAfter(req.Method, resp.StatusCode); method != req.Method {
		req.Method, req.Body = method, nil
		req.Header = without(req.Header, describesBody)
	}
	return req, to
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

// without leaves out the fields whose name which picks.
func without(header iter.Seq2[string, string], which func(name string) bool) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if header == nil {
			return
		}
		for name, value := range header {
			if !which(name) && !yield(name, value) {
				return
			}
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
