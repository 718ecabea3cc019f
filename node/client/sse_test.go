package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transport answers requests by a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// streamOf answers every request with a stream.
func streamOf(r io.Reader) transport {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Body: io.NopCloser(r)}, nil
	}
}

func newClient(t testing.TB, rt http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New("http://node", rt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read reads one stream and returns its events as "id name data".
func read(t testing.TB, r io.Reader, limit int) ([]string, error) {
	c := newClient(t, streamOf(r))
	c.Reconnects = 0
	if limit > 0 {
		c.MaxBytes = limit
	}
	var got []string
	for e, err := range c.Watch(context.Background(), "x", "") {
		if err != nil {
			return got, err
		}
		got = append(got, fmt.Sprintf("%q %q %q", e.ID, e.Name, e.Data))
	}
	return got, nil
}

func TestStreamParsing(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"plain", "id: 1\nevent: queued\ndata: {}\n\n", []string{`"1" "queued" "{}"`}},
		{"no blanks", "id:1\nevent:queued\ndata:{}\n\n", []string{`"1" "queued" "{}"`}},
		{"two blanks", "data:  x\n\n", []string{`"" "" " x"`}},
		{"CR LF", "id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{`"1" "" "a"`, `"1" "" "b"`}},
		{"CR", "data: a\r\rdata: b\r\r", []string{`"" "" "a"`, `"" "" "b"`}},
		{"mixed", "data: a\rdata: b\ndata: c\r\n\n", []string{`"" "" "a\nb\nc"`}},
		{"byte order mark", "\ufeffdata: a\n\n", []string{`"" "" "a"`}},
		{"mark not at the start", "data: a\n\n\ufeffdata: b\n\n", []string{`"" "" "a"`}},
		{"empty data", "data:\n\n", []string{`"" "" ""`}},
		{"empty lines of data", "data\ndata\n\n", []string{`"" "" "\n"`}},
		{"no data", "event: x\n\ndata: a\n\n", []string{`"" "" "a"`}},
		{"id without data", "id: 7\n\ndata: a\n\n", []string{`"7" "" "a"`}},
		{"id with NUL", "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", []string{`"1" "" "a"`, `"1" "" "b"`}},
		{"empty id", "id: 1\ndata: a\n\nid\ndata: b\n\n", []string{`"1" "" "a"`, `"" "" "b"`}},
		{"comments", ": hello\ndata: a\n: more\ndata: b\n\n:\n\n", []string{`"" "" "a\nb"`}},
		{"unknown field", "date: a\nDATA: b\n data: c\ndata: d\n\n", []string{`"" "" "d"`}},
		{"colon in data", "data: a: b\n\n", []string{`"" "" "a: b"`}},
		{"cut short", "data: a\n\nid: 9\ndata: b\n", []string{`"" "" "a"`}},
		{"cut in a line", "data: a\n\ndata: b", []string{`"" "" "a"`}},
		{"closing is ours", "event: closing\ndata: {}\n\ndata: a\n\n", []string{`"" "" "a"`}},
		{"nothing behind the end", "event: completed\ndata: {}\n\ndata: a\n\n", []string{`"" "completed" "{}"`}},
	} {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(c.text), "by bytes": iotest.OneByteReader(strings.NewReader(c.text)),
			"end with data": iotest.DataErrReader(strings.NewReader(c.text)),
		} {
			got, err := read(t, r, 0)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: got %s, want %s", c.name, name, got, c.want)
			}
			if ended := strings.Contains(c.text, "completed"); ended && err != nil || !ended && !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: ended with %v", c.name, name, err)
			}
		}
	}
}

func TestSE06_LinesOfAnyLength(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 5<<16)
	for name, text := range map[string]string{
		"with a blank":    "id: 4\nevent: completed\ndata: " + large + "\n\n",
		"without a blank": "id:4\nevent:completed\ndata:" + large + "\n\n",
		"CR LF":           "id: 4\r\nevent: completed\r\ndata: " + large + "\r\n\r\n",
	} {
		got, err := read(t, strings.NewReader(text), 0)
		if err != nil || len(got) != 1 || got[0] != `"4" "completed" "`+large+`"` {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
	}
	lines := "data: " + strings.ReplaceAll(large, "f", "f\ndata:")
	if got, err := read(t, strings.NewReader(lines+"\n\n"), 0); len(got) != 1 || !errors.Is(err, io.EOF) || strings.Count(got[0], `\n`) != 5<<16 {
		t.Errorf("many lines: %d events, %v", len(got), err)
	}
}

func TestSE06_EventsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"one line":     "data: " + strings.Repeat("x", 1000) + "\n\n",
		"endless line": strings.Repeat("x", 1001),
		"many lines":   strings.Repeat("data: x\n", 200) + "\n",
		"one name":     "event: " + strings.Repeat("x", 1000) + "\n\n",
		"comments":     strings.Repeat(": x\n", 400),
	} {
		got, err := read(t, strings.NewReader("data: ok\n\n"+text), 1000)
		if len(got) != 1 || err == nil || !strings.Contains(err.Error(), "event is too large: more than 1000 bytes") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	// Each event may be as large, and so may be what keeps the stream alive in between.
	if got, err := read(t, strings.NewReader(strings.Repeat(": keepalive\n\ndata: x\n\n", 1000)), 1000); len(got) != 1000 || !errors.Is(err, io.EOF) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

// naive reads a whole stream the slow way, as the standard tells it.
func naive(text string) (got []string) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var id, last, name, data string
	has := false
	for _, line := range lines[:len(lines)-1] { // what has no end is no line
		if line == "" {
			last = id
			if has && name != "closing" {
				got = append(got, fmt.Sprintf("%q %q %q", last, name, strings.TrimSuffix(data, "\n")))
				if name == "completed" || name == "failed" {
					return got
				}
			}
			name, data, has = "", "", false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "event":
			name = value
		case field == "data":
			data, has = data+value+"\n", true
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return got
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"id: 1\nevent: queued\ndata: {}\n\n", "\ufeffdata:a\r\n\r\n:c\n\ndata\r\rid:\x00\nid: 2\n\ndata: b\n\n",
		"event: completed\ndata: 1\n\ndata: 2\n\n", "event: closing\ndata:\n\n", "\r\n\r\ndata: \r\n\n", "retry: 99999999999\ndata: x\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := naive(text)
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))} {
			if got, _ := read(t, r, 0); !slices.Equal(got, want) {
				t.Errorf("%q: got %s, want %s", text, got, want)
			}
		}
	})
}
