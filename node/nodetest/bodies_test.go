package nodetest_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// post hands in a body of no announced length.
func (s *stage) post(body string) (int, string) {
	s.t.Helper()
	whole := struct{ io.Reader }{strings.NewReader(body)} // hides its length
	status, _, answer := s.send(http.MethodPost, "/jobs", whole, nil)
	return status, answer
}

// A body without a length passes below the limit, and reaches the target whole; above it is refused.
func TestBD01_BodyWithoutLength(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		big := func(n int) string {
			return fmt.Sprintf(`{"user_id":"u","idempotent_key":"k","url":%q,"webhook_url":%q,"method":"POST","body":%q}`,
				s.target.URL("/"), s.receiver.URL("/"), strings.Repeat("x", n))
		}
		if status, answer := s.post(big(3 << 20)); status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, `"limit_bytes":1048576`) {
			t.Errorf("3 MB: %d %s", status, answer)
		}
		if status, answer := s.post(big(900 << 10)); status != http.StatusCreated {
			t.Errorf("900 KB: %d %s", status, answer)
		}
		s.node.WaitIdle()
		if got := s.target.Requests(); len(got) != 1 || len(got[0].Body) != 900<<10 {
			t.Errorf("the target saw %d requests", len(got))
		}
	})
}

// Bytes are the same wherever they come out: at the target, in the stored result, in the stream and at
// the receiver. So are texts that a decoder would print in another way.
func TestBD02_BytesComeOutUnchanged(t *testing.T) {
	for name, body := range map[string]string{
		"not UTF-8":           "\xff\xfe\x00\xc3\x28",
		"text":                "Grüße, <b>&amp;</b> \u2028 \U0001F600",
		"replacement itself":  "\uFFFD",
		"control characters":  "\x00\x01\x1f\x7f\r\n\t",
		"half of a character": "gr\xc3",
		"empty":               "",
	} {
		t.Run(name, func(t *testing.T) { bytesComeOut(t, body) })
	}
}

// JSON is bytes too.
func TestBD03_JSONIsNotReprinted(t *testing.T) {
	for name, body := range map[string]string{
		"order, numbers, doubled names": `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`,
		"escapes and spaces":            "{ \"a\" : \"\\u00e9\\/\" }\n\n",
	} {
		t.Run(name, func(t *testing.T) { bytesComeOut(t, body) })
	}
}

// bytesComeOut sends a body through a node and back, as question and as answer.
func bytesComeOut(t *testing.T, body string) {
	t.Helper()
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Reply{}.With("Content-Type", "application/json").Body(body))
		id := s.submit(func(sub *client.Submission) { sub.Body = []byte(body) })
		j := s.settled(id)
		stored, err := j.Result.Bytes()
		if err != nil || string(stored) != body || j.Result.ContentType != "application/json" || j.Result.BodyTruncated {
			t.Errorf("stored %+v, %v", j.Result, err)
		}
		if got := s.target.Requests(); len(got) != 1 || string(got[0].Body) != body {
			t.Errorf("the target got %q", got[0].Body)
		}
		if d := s.receiver.Of(id); len(d) != 1 || string(d[0].Message.Bytes()) != body || d[0].Message.BodyTruncated {
			t.Errorf("the receiver got %+v", d)
		}
		last := s.watch(id)
		if got := last.bytes(t); string(got) != body {
			t.Errorf("the stream told %q", got)
		}
	})
}

// A large answer is stored in part and delivered whole.
func TestLargeAnswers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for name, body := range map[string]string{
			"text": strings.Repeat("grün ", 40_000), "binary": strings.Repeat("\xff\xfe\x00\xc3\x28", 40_000),
		} {
			s.target.Reply(nodetest.Text(body))
			id := s.submit()
			j := s.settled(id)
			kept, err := j.Result.Bytes()
			if err != nil || !j.Result.BodyTruncated || len(kept) > 65536 || len(kept) < 65500 || !strings.HasPrefix(body, string(kept)) {
				t.Errorf("%s: %d bytes kept, truncated %v, %v", name, len(kept), j.Result.BodyTruncated, err)
			}
			if d := s.receiver.Of(id); len(d) != 1 || string(d[0].Message.Bytes()) != body || d[0].Message.BodyTruncated {
				t.Errorf("%s: the receiver got %d deliveries", name, len(d))
			}
		}
	})
}

// What is illegal in a header is refused at once; what only one hop may say is left out, and does not
// keep the job from its target.
func TestHD02_Headers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for name, value := range map[string]string{"X-A": "a\r\nX-B: b", "X A": "a", "X-A:": "a", "": "a", "X-N": "a\x00b"} {
			_, err := s.node.Client().Submit(t.Context(), s.submission(func(sub *client.Submission) {
				sub.Headers = map[string]string{name: value}
			}))
			if err == nil {
				t.Errorf("header %q with %q was taken", name, value)
			}
		}
		j := s.settled(s.submit(func(sub *client.Submission) {
			sub.Headers = map[string]string{
				"Host": "evil.test", "Content-Length": "5", "Transfer-Encoding": "chunked", "Connection": "X-Auth", "X-Auth": "hop",
				"Keep-Alive": "timeout=1", "Upgrade": "h2c", "TE": "trailers", "X-Kept": "yes", "Accept-Encoding": "br",
			}
		}))
		tells(t, j, "completed 200: 200; delivered after 1")
		got := s.target.Requests()[0]
		if got.Host != s.target.Address || string(got.Body) != "question" || got.Header.Get("X-Kept") != "yes" || got.Header.Get("Accept-Encoding") != "br" {
			t.Errorf("the target got %+v", got)
		}
		for _, name := range []string{"Transfer-Encoding", "X-Auth", "Keep-Alive", "Upgrade", "Te"} {
			if v := got.Header.Get(name); v != "" {
				t.Errorf("the target got %s: %s", name, v)
			}
		}
		if length := got.Header.Get("Content-Length"); length != "8" {
			t.Errorf("Content-Length is %q", length)
		}
	})
}

// decoded is a body as it stands in JSON.
func decoded(t *testing.T, text, encoding string) []byte {
	t.Helper()
	if encoding == "" {
		return []byte(text)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Error(err)
	}
	return b
}
