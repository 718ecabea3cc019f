package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// seen is one request as a target read it.
type seen struct {
	conn   *connection
	method string
	path   string
	body   string
	header http.Header
}

// redirector answers each request with what answer says; it returns its URL and what it read so far.
func (p path) redirector(t testing.TB, answer func(path string) (status int, location string)) (string, func() []seen) {
	t.Helper()
	var (
		mu  sync.Mutex
		log []seen
	)
	u := p.serve(t, func(c *connection) {
		for req, body := c.next(); req != nil; req, body = c.next() {
			mu.Lock()
			log = append(log, seen{c, req.Method, req.URL.Path, body, req.Header})
			mu.Unlock()
			status, location := answer(req.URL.Path)
			if location != "" {
				location = "Location: " + location + "\r\n"
			}
			content := "Content-Length: 4\r\n\r\nbody"
			if status == http.StatusNotModified {
				content = "\r\n"
			}
			c.say(fmt.Sprintf("HTTP/1.1 %d X\r\n%s%s", status, location, content))
		}
	})
	return u, func() []seen { mu.Lock(); defer mu.Unlock(); return log }
}

func secretRequest(method, target string) Request {
	var field []string
	for _, h := range []string{"Authorization", "Cookie", "X-Api-Key", "x-my-token", "Content-Type", "content-language", "X-Plain"} {
		field = append(field, h, "v")
	}
	return request(method, target, "payload", field...)
}

func secret(header string) bool {
	h := strings.ToLower(header)
	return h == "authorization" || h == "cookie" || strings.HasSuffix(h, "key") || strings.HasSuffix(h, "token")
}

func names(h http.Header) string {
	var list []string
	for _, n := range []string{"Authorization", "Cookie", "X-Api-Key", "X-My-Token", "Content-Type", "Content-Language", "X-Plain"} {
		if h.Get(n) != "" {
			list = append(list, n)
		}
	}
	return strings.Join(list, " ")
}

func TestHP04_NoRedirectIsFollowedByDefault(t *testing.T) {
	eachPath(t, testHP04NoRedirectIsFollowedByDefault)
}

func testHP04NoRedirectIsFollowedByDefault(t *testing.T, p path) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{"/other", "http://other.test/", "http://169.254.169.254/", "/from"} {
			u, log := p.redirector(t, func(string) (int, string) { return status, to })
			got, body, err := fetch(t.Context(), p.to(t, Config{}), secretRequest("POST", u+"/from"))
			if got != status || body != "body" || len(log()) != 1 {
				t.Errorf("%d to %s: %d %q %v after %d requests", status, to, got, body, err, len(log()))
			}
		}
	}
}

func TestHP04_FollowedWhenEnabled(t *testing.T) { eachPath(t, testHP04FollowedWhenEnabled) }

func testHP04FollowedWhenEnabled(t *testing.T, p path) {
	const all = "Authorization Cookie X-Api-Key X-My-Token Content-Type Content-Language X-Plain"
	for _, tt := range []struct {
		method string
		status int
		want   string // method and body of the second request
		header string // of those that secretRequest sets, at the same host
		other  string // at another host
	}{
		{"POST", 307, "POST payload", all, "Content-Type Content-Language X-Plain"},
		{"POST", 308, "POST payload", all, "Content-Type Content-Language X-Plain"},
		{"PUT", 301, "PUT payload", all, "Content-Type Content-Language X-Plain"},
		{"POST", 301, "GET ", "Authorization Cookie X-Api-Key X-My-Token X-Plain", "X-Plain"},
		{"POST", 302, "GET ", "Authorization Cookie X-Api-Key X-My-Token X-Plain", "X-Plain"},
		{"PUT", 303, "GET ", "Authorization Cookie X-Api-Key X-My-Token X-Plain", "X-Plain"},
	} {
		t.Run(fmt.Sprint(tt.method, tt.status), func(t *testing.T) {
			other, otherLog := p.redirector(t, func(string) (int, string) { return 200, "" })
			u, log := p.redirector(t, func(path string) (int, string) {
				switch path {
				case "/same":
					return tt.status, "/end"
				case "/other":
					return tt.status, other + "/end"
				default:
					return 200, ""
				}
			})
			c := p.to(t, Config{FollowRedirects: 5, Secret: secret})
			for _, path := range []string{"/same", "/other"} {
				if status, _, err := fetch(t.Context(), c, secretRequest(tt.method, u+path)); status != 200 {
					t.Fatalf("%s: status %d, %v", path, status, err)
				}
			}
			same := log()[1]
			if got := same.method + " " + same.body; got != tt.want || names(same.header) != tt.header || same.path != "/end" {
				t.Errorf("same host: %q with %s, want %q with %s", got, names(same.header), tt.want, tt.header)
			}
			away := otherLog()[0]
			if got := away.method + " " + away.body; got != tt.want || names(away.header) != tt.other {
				t.Errorf("other host: %q with %s, want %q with %s", got, names(away.header), tt.want, tt.other)
			}
			if n := len(log()); n != 3 || log()[0].conn != log()[2].conn {
				t.Errorf("%d requests, or a connection was dropped after a redirect", n)
			}
		})
	}
}

func TestHP04_SecretsDoNotComeBack(t *testing.T) { eachPath(t, testHP04SecretsDoNotComeBack) }

func testHP04SecretsDoNotComeBack(t *testing.T, p path) {
	var back string
	far, _ := p.redirector(t, func(string) (int, string) { return 307, back })
	u, log := p.redirector(t, func(path string) (int, string) {
		if path == "/from" {
			return 307, far
		}
		return 200, ""
	})
	back = u + "/end"
	c := p.to(t, Config{FollowRedirects: 5, Secret: secret})
	if status, _, err := fetch(t.Context(), c, secretRequest("POST", u+"/from")); status != 200 {
		t.Fatalf("status %d, %v", status, err)
	}
	if got := names(log()[1].header); strings.Contains(got, "Authorization") {
		t.Errorf("the second request to the first host carries %s", got)
	}
}

func TestWithoutRedirects(t *testing.T) { eachPath(t, testWithoutRedirects) }

func testWithoutRedirects(t *testing.T, p path) {
	u, log := p.redirector(t, func(string) (int, string) { return 308, "/self" })
	c := p.to(t, Config{FollowRedirects: 5, Secret: secret}).WithoutRedirects()
	if status, _, err := fetch(t.Context(), c, request("POST", u, "x")); status != 308 || len(log()) != 1 {
		t.Errorf("status %d, %v after %d requests", status, err, len(log()))
	}
}

func TestHP04_LoopEndsWithTheLastRedirect(t *testing.T) {
	eachPath(t, testHP04LoopEndsWithTheLastRedirect)
}

func testHP04LoopEndsWithTheLastRedirect(t *testing.T, p path) {
	for follow := 1; follow <= 5; follow++ {
		u, log := p.redirector(t, func(string) (int, string) { return 308, "/self" })
		c := p.to(t, Config{FollowRedirects: follow, Secret: secret})
		status, body, err := fetch(t.Context(), c, request("POST", u+"/self", "payload"))
		if status != 308 || body != "body" || len(log()) != follow+1 {
			t.Errorf("%d: status %d %q %v after %d requests", follow, status, body, err, len(log()))
		}
	}
}

func TestHP04_GuardOnEachHop(t *testing.T) { eachPath(t, testHP04GuardOnEachHop) }

func testHP04GuardOnEachHop(t *testing.T, p path) {
	for _, to := range []string{"http://169.254.169.254/latest", "http://[::ffff:a9fe:a9fe]/", "//2852039166/", "http://metadata.google.internal/"} {
		u, _ := p.redirector(t, func(string) (int, string) { return 307, to })
		c := p.to(t, Config{FollowRedirects: 5, Secret: secret})
		_, err := c.Do(t.Context(), request("POST", u, "payload"))
		if e := failure(t, err); e.Cause != Blocked || !e.Sent {
			t.Errorf("%s: cause %v, sent %v (the first target has read it): %v", to, e.Cause, e.Sent, e)
		}
	}
}

func TestHP04_WhatCannotBeFollowedIsTheAnswer(t *testing.T) {
	eachPath(t, testHP04WhatCannotBeFollowedIsTheAnswer)
}

func testHP04WhatCannotBeFollowedIsTheAnswer(t *testing.T, p path) {
	for _, to := range []string{"", "ftp://x.test/", "http://", "http://[bad", "javascript:alert(1)", "http://elsewhere.test/"} {
		u, log := p.redirector(t, func(string) (int, string) { return 302, to })
		c := p.to(t, Config{FollowRedirects: 5, Secret: secret, HopAllowed: func(host string) bool { return host == "127.0.0.1" }})
		status, _, err := fetch(t.Context(), c, request("POST", u, "payload"))
		if status != 302 || len(log()) != 1 {
			t.Errorf("%q: status %d, %v after %d requests", to, status, err, len(log()))
		}
	}
	for _, status := range []int{300, 304, 305, 306} {
		u, _ := p.redirector(t, func(string) (int, string) { return status, "/x" })
		got, _, err := fetch(t.Context(), p.to(t, Config{FollowRedirects: 5, Secret: secret}), request("GET", u, ""))
		if got != status {
			t.Errorf("status %d, %v, want %d", got, err, status)
		}
	}
}

func TestOriginIsSchemeHostAndPort(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"http://a.test/x", "http://A.test:80/y", true},
		{"https://a.test", "https://a.test:443", true},
		{"http://a.test", "https://a.test", false},
		{"http://a.test", "http://a.test:8080", false},
		{"http://a.test", "http://b.a.test", false},
		{"http://a.test", "http://a.test.", false},
	} {
		a, errA := url.Parse(tt.a)
		b, errB := url.Parse(tt.b)
		if errA != nil || errB != nil || origin(a, b) != tt.want {
			t.Errorf("origin(%s, %s) is not %v", tt.a, tt.b, tt.want)
		}
	}
}

func FuzzLocation(f *testing.F) {
	for _, s := range []string{"/x", "//h", "http://u:p@h/#f", "?q", "http://[::1", "\x00", "HTTP://H"} {
		f.Add(s)
	}
	from, _ := url.Parse("http://from.test/a/b?c")
	f.Fuzz(func(t *testing.T, s string) {
		to := location(from, s)
		if to != nil && ((to.Scheme != "http" && to.Scheme != "https") || to.Hostname() == "" || to.User != nil || to.Fragment != "") {
			t.Fatalf("location(%q) = %#v", s, to)
		}
	})
}
