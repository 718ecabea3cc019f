package nodetest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// raw sends one request over a connection of its own and returns what comes within a minute, and the
// error that it ends with.
func raw(t *testing.T, f *nodetest.Fleet, s *nodetest.Server) (string, error) {
	t.Helper()
	c, err := f.Net.Machine("client.test").Process().Dial(t.Context(), "tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ask(c)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	return string(b), err
}

func ask(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }

func TestServerMisbehaves(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
	ok := nodetest.Reply{}.Body("body")
	for name, c := range map[string]struct {
		reply nodetest.Reply
		want  string
		err   string // "" for an end of the connection
		takes time.Duration
	}{
		"answers":              {ok, whole, "timeout", time.Minute},
		"answers late":         {ok.Late(time.Second).CloseAfter(99), whole, "", time.Second},
		"with headers":         {nodetest.Status(503).With("Retry-After", "7").CloseAfter(99), "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n", "", 0},
		"hangs":                {nodetest.Hang(), "", "timeout", time.Minute},
		"hangs in the middle":  {ok.HangAfter(8), whole[:8], "timeout", time.Minute},
		"resets":               {nodetest.Reset(), "", "reset", 0},
		"closes in the middle": {ok.CloseAfter(8), whole[:8], "", 0},
		"sends garbage":        {nodetest.Raw("what?"), "what?", "", 0},
		"announces too much":   {ok.Announce(9).CloseAfter(99), strings.Replace(whole, "4", "9", 1), "", 0},
		"is slow":              {nodetest.Raw("slow").Trickle(time.Second), "slow", "", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
				s := f.Target("s.test")
				s.Reply(c.reply)
				start := time.Now()
				got, err := raw(t, f, s)
				if got != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
					t.Errorf("got %q, %v, want %q, %v", got, err, c.want, c.err)
				}
				if took := time.Since(start); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
			})
		})
	}
}

func TestServerRemembers(t *testing.T) {
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		s := f.Target("s.test")
		s.Reply(nodetest.Text("one"), nodetest.Text("more").CloseOnNext())
		c, err := f.Net.Machine("client.test").Process().Dial(t.Context(), "tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		for _, want := range []string{"one", "more", ""} {
			_, _ = fmt.Fprintf(c, "PUT /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-N: %s\r\n\r\nhi", want)
			resp, err := http.ReadResponse(r, nil)
			if want == "" {
				if err == nil {
					t.Error("the third request was answered")
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := io.ReadAll(resp.Body); string(body) != want {
				t.Errorf("got %q, want %q", body, want)
			}
		}
		got := s.Requests()
		if len(got) != 2 || s.Open() != 0 || s.MostOpen() != 1 {
			t.Fatalf("%d requests, %d open, %d at most", len(got), s.Open(), s.MostOpen())
		}
		if q := got[1]; q.N != 2 || q.Conn != 1 || q.Method != "PUT" || q.Path != "/a?b" || string(q.Body) != "hi" || q.Header.Get("X-N") != "more" || q.AnsweredAt.IsZero() {
			t.Errorf("second request %+v", q)
		}
		s.Stop()
		if _, err := f.Net.Machine("client.test").Process().Dial(t.Context(), "tcp", s.Address); err == nil {
			t.Error("a stopped server was reached")
		}
		s.Start()
		s.Reply(nodetest.Text("again").CloseAfter(999))
		if got, err := raw(t, f, s); err != nil || !strings.HasSuffix(got, "again") {
			t.Errorf("after the restart: %q, %v", got, err)
		}
	})
}
