package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// bodies is a server that sends one body in the ways that HTTP has for it, and counts connections.
type bodies struct {
	path
	body     []byte
	url      string
	accepted atomic.Int32
}

func (p path) bodies(t testing.TB, body []byte) *bodies {
	b := &bodies{path: p, body: body}
	b.url = p.serve(t, func(c *connection) {
		b.accepted.Add(1)
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
	return b
}

func TestReadBodyLimits(t *testing.T) { eachPath(t, testReadBodyLimits) }

func testReadBodyLimits(t *testing.T, p path) {
	for _, n := range []int{0, 1, 511, 512, 513, 4096, freeBody, freeBody + 1, 300_000} {
		b := p.bodies(t, bytes.Repeat([]byte("0123456789"), n/10+1)[:n])
		for _, how := range []string{"/length", "/chunked", "/until-close"} {
			for _, limit := range []int64{-1, 0, 1, int64(n) - 1, int64(n), int64(n) + 1, 1 << 40} {
				if limit >= -1 {
					b.check(t, how, limit)
				}
			}
		}
	}
}

func (b *bodies) check(t *testing.T, how string, limit int64) {
	t.Helper()
	c, err := New(Config{TLS: b.client})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := b.accepted.Load()
	want, cut := b.body, false
	if limit >= 0 && int64(len(want)) > limit {
		want, cut = want[:limit], true
	}
	for range 2 {
		resp, err := c.Do(t.Context(), request("POST", b.url+how, "x"))
		if err != nil {
			t.Fatal(err)
		}
		got, truncated, err := ReadBody(resp, limit, nil)
		if err != nil || !bytes.Equal(got, want) || truncated != cut {
			t.Fatalf("%d bytes %s, limit %d: %d bytes, truncated %v, %v", len(b.body), how, limit, len(got), truncated, err)
		}
	}
	if int64(len(b.body)) == limit+1 && limit >= 0 {
		return // the byte that tells that there is more may be the last one
	}
	if kept := b.accepted.Load() == before+1; kept != (!cut && how != "/until-close") {
		t.Errorf("%d bytes %s, limit %d: the connection was kept: %v", len(b.body), how, limit, kept)
	}
}

func TestHeadHasNoBody(t *testing.T) { eachPath(t, testHeadHasNoBody) }

func testHeadHasNoBody(t *testing.T, p path) {
	url := p.serve(t, func(c *connection) {
		if req, _ := c.next(); req != nil {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
		}
	})
	resp, err := p.to(t, Config{}).Do(t.Context(), request(http.MethodHead, url, ""))
	if err != nil {
		t.Fatal(err)
	}
	if body, truncated, err := ReadBody(resp, 10, nil); len(body) != 0 || truncated || err != nil {
		t.Errorf("%d bytes, truncated %v, %v", len(body), truncated, err)
	}
}

func TestBD02_BytesPassUnchanged(t *testing.T) { eachPath(t, testBD02BytesPassUnchanged) }

func testBD02BytesPassUnchanged(t *testing.T, p path) {
	for _, body := range []string{"\xFF\xFE\x00\xC3\x28", `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`} {
		_, got, err := fetch(t.Context(), p.to(t, Config{}), request("POST", p.bodies(t, []byte(body)).url+"/length", "x"))
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

// A small body needs no room; a larger one claims it before it is held: what it has announced, or little
// at first and the limit once it turns out larger.
func TestBodiesClaimRoom(t *testing.T) { eachPath(t, testBodiesClaimRoom) }

func testBodiesClaimRoom(t *testing.T, p path) {
	const limit = 4 << 20
	client := p.to(t, Config{})
	for _, c := range []struct {
		size           int
		known, unknown []int64
	}{
		{freeBody / 2, nil, nil},
		{freeBody, nil, []int64{ModestBody}},
		{300_000, []int64{300_001}, []int64{ModestBody}},
		{2 << 20, []int64{2<<20 + 1}, []int64{ModestBody, limit + 1}},
		{limit, []int64{limit + 1}, []int64{ModestBody, limit + 1}},
		{5 << 20, []int64{limit}, []int64{ModestBody, limit + 1}},
	} {
		b := p.bodies(t, bytes.Repeat([]byte("0123456789"), c.size/10+1)[:c.size])
		for how, want := range map[string][]int64{"/length": c.known, "/chunked": c.unknown, "/until-close": c.unknown} {
			resp, err := client.Do(t.Context(), request("POST", b.url+how, "x"))
			if err != nil {
				t.Fatal(err)
			}
			var claims []int64
			got, _, err := ReadBody(resp, limit, func(n int64) error {
				claims = append(claims, n)
				return nil
			})
			if err != nil || !bytes.Equal(got, b.body[:min(c.size, limit)]) {
				t.Fatalf("%d bytes %s: %d bytes, %v", c.size, how, len(got), err)
			}
			if claims = slices.Compact(claims); !slices.Equal(claims, want) {
				t.Errorf("%d bytes %s claim %v, want %v", c.size, how, claims, want)
			}
			if int64(cap(got)) > limit+1 {
				t.Errorf("%d bytes %s are held in %d", c.size, how, cap(got))
			}
		}
	}
}

// A body for which there is no room ends with the error that says so, and its connection is dropped.
func TestBodyWithoutRoom(t *testing.T) { eachPath(t, testBodyWithoutRoom) }

func testBodyWithoutRoom(t *testing.T, p path) {
	noRoom := errors.New("no room")
	b := p.bodies(t, make([]byte, 100_000))
	client := p.to(t, Config{})
	for n, how := range []string{"/length", "/chunked"} {
		resp, err := client.Do(t.Context(), request("POST", b.url+how, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if body, _, err := ReadBody(resp, -1, func(int64) error { return noRoom }); body != nil || !errors.Is(err, noRoom) {
			t.Errorf("%s: %d bytes, %v", how, len(body), err)
		}
		if got := int(b.accepted.Load()); got != n+1 {
			t.Errorf("%s: %d connections", how, got)
		}
	}
}
