package egress

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// bodies serves the given body in the ways that HTTP has for it, and counts connections.
func bodies(t testing.TB, body []byte, accepted *atomic.Int32) string {
	return rawServer(t, func(c *connection) {
		accepted.Add(1)
		for req, _ := c.next(); req != nil; req, _ = c.next() {
			switch req.URL.Path {
			case "/length":
				c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			case "/chunked":
				c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				if len(body) > 0 {
					c.say(fmt.Sprintf("%x\r\n%s\r\n", len(body), body))
				}
				c.say("0\r\n\r\n")
			default:
				c.say("HTTP/1.1 200 OK\r\n\r\n" + string(body))
				return
			}
		}
	})
}

func TestReadBodyLimits(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 4096, trustedRead, trustedRead + 1, 300_000} {
		body := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		for _, path := range []string{"/length", "/chunked", "/until-close"} {
			for _, limit := range []int64{-1, 0, 1, int64(n) - 1, int64(n), int64(n) + 1, 1 << 40} {
				if limit < -1 {
					continue
				}
				checkBody(t, body, path, limit)
			}
		}
	}
}

func checkBody(t *testing.T, body []byte, path string, limit int64) {
	t.Helper()
	var accepted atomic.Int32
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	url := bodies(t, body, &accepted)
	want, cut := body, false
	if limit >= 0 && int64(len(body)) > limit {
		want, cut = body[:limit], true
	}
	for range 2 {
		resp, err := c.Do(request(t, t.Context(), "POST", url+path, "x"))
		if err != nil {
			t.Fatal(err)
		}
		got, truncated, err := ReadBody(resp, limit)
		if err != nil || !bytes.Equal(got, want) || truncated != cut {
			t.Fatalf("%d bytes %s, limit %d: %d bytes, truncated %v, %v", len(body), path, limit, len(got), truncated, err)
		}
	}
	if int64(len(body)) == limit+1 && limit >= 0 {
		return // the byte that tells that there is more may be the last one
	}
	if kept := accepted.Load() == 1; kept != (!cut && path != "/until-close") {
		t.Errorf("%d bytes %s, limit %d: the connection was kept: %v", len(body), path, limit, kept)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	url := rawServer(t, func(c *connection) {
		if req, _ := c.next(); req != nil {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
		}
	})
	resp, err := client(t, Config{}).Do(request(t, t.Context(), http.MethodHead, url, ""))
	if err != nil {
		t.Fatal(err)
	}
	if body, truncated, err := ReadBody(resp, 10); len(body) != 0 || truncated || err != nil {
		t.Errorf("%d bytes, truncated %v, %v", len(body), truncated, err)
	}
}

func TestBD02_BytesPassUnchanged(t *testing.T) {
	for _, body := range []string{"\xFF\xFE\x00\xC3\x28", `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`} {
		var accepted atomic.Int32
		_, got, err := exchange(client(t, Config{}), request(t, t.Context(), "POST", bodies(t, []byte(body), &accepted)+"/length", "x"))
		if got != body {
			t.Errorf("%q, %v, want %q", got, err, body)
		}
	}
}

func TestCutTextStaysText(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", "ab\xc3": "ab", "ab\xe2\x82": "ab", "ab\xf0\x9f\x98": "ab", "ab€": "ab€", "": "",
		"\xff\xfe\xc3": "\xff\xfe\xc3", "ab\xc3\x28": "ab\xc3\x28", "\xc3": "", "\x80\x80\x80\x80": "\x80\x80\x80\x80",
	} {
		if got := string(wholeRunes([]byte(in))); got != want {
			t.Errorf("wholeRunes(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		n := rapid.IntRange(0, len(s)).Draw(t, "cut")
		got := string(wholeRunes([]byte(s[:n])))
		if !utf8.ValidString(got) || !strings.HasPrefix(s, got) || n-len(got) >= utf8.UTFMax {
			t.Fatalf("%q cut at %d is %q", s, n, got)
		}
	})
}
