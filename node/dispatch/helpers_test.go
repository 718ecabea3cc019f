package dispatch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sort"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dispatcher returns a dispatcher whose client is closed at the end of the test.
func dispatcher(t testing.TB, cfg egress.Config, limit int64) *Dispatcher {
	t.Helper()
	cfg.Secret = job.Secret
	c, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return New(Config{Client: c, MaxResponseBytes: limit})
}

// wire is one request as it came over the wire.
type wire struct {
	line    string
	headers []string // sorted, as spelled
	body    string
}

// target is a server on the loopback that records what it reads, byte for byte, and answers with
// what answer returns for the n-th request, from 1. It closes the connection where answer is "".
//
// mu guards log.
type target struct {
	url string

	mu  sync.Mutex
	log []wire
}

func newTarget(t testing.TB, answer func(n int) string) *target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tg := &target{url: "http://" + l.Addr().String()}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		open    []net.Conn
	)
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); tg.serve(c, r, answer); {
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return tg
}

// serve reads one request and answers it; false ends the connection.
func (tg *target) serve(c net.Conn, r *bufio.Reader, answer func(n int) string) bool {
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		s, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		head.WriteString(s)
	}
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()), r)))
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSuffix(head.String(), "\r\n\r\n"), "\r\n")
	w := wire{line: lines[0], headers: lines[1:], body: string(body)}
	sort.Strings(w.headers)
	tg.mu.Lock()
	tg.log = append(tg.log, w)
	n := len(tg.log)
	tg.mu.Unlock()
	s := answer(n)
	_, err = io.WriteString(c, s)
	return err == nil && s != ""
}

func (tg *target) requests() []wire {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	return tg.log
}

func always(answer string) func(int) string { return func(int) string { return answer } }

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
