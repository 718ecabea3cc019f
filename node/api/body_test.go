package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// counted counts what was read of a body. Its type hides the length, so HTTP/1.1 sends it in chunks.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func jobWithBody(size int) string {
	return strings.Replace(valid, "{", `{"body":"`+strings.Repeat("x", size)+`",`, 1)
}

func TestBD01_BodyWithoutLengthPassesBelowTheLimit(t *testing.T) {
	for name, trailer := range map[string]http.Header{"plain": nil, "with trailers": {"X-Sum": {"abc"}}} {
		for _, h2 := range []bool{false, true} {
			f := newFake()
			var got int
			f.submit = func(_ context.Context, s intake.Submission) (intake.Receipt, error) {
				got = len(s.Request.Body)
				return intake.Receipt{ID: idOf(1), Status: job.Queued}, nil
			}
			body := &counted{Reader: strings.NewReader(jobWithBody(900 << 10))}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node/jobs", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Trailer = trailer
			resp, err := transport(t, serve(t, f.handler()), h2).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusCreated || got != 900<<10 {
				t.Errorf("%s, HTTP/2 %v: status %d, %d bytes taken", name, h2, resp.StatusCode, got)
			}
		}
	}
}

func TestBD01_BodyWithoutLengthIsCutAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, newFake().handler())
		conn, err := n.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		body := &counted{Reader: strings.NewReader(jobWithBody(3 << 20))}
		var sender sync.WaitGroup
		defer sender.Wait()
		defer func() { _ = conn.Close() }()
		sender.Go(func() { // until the server no longer takes it
			req, _ := http.NewRequest(http.MethodPost, "http://node/jobs", body)
			_ = req.Write(conn)
		})
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if want := `{"error":"the body must not be larger than 1048576 bytes","limit_reason":"body_bytes","limit":1048576,"limit_bytes":1048576}` + "\n"; err != nil || string(text) != want {
			t.Errorf("answered %q, %v; want %q", text, err, want)
		}
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Errorf("status %d, connection closes: %v", resp.StatusCode, resp.Close)
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after the answer: %v, want a clean end", err)
		}
		// net/http passes over another 256 KiB, so that the client comes to read the answer.
		if got := body.n.Load(); got < 1<<20 || got > 1<<20+512<<10 {
			t.Errorf("the server took %d bytes of the body, the limit is %d", got, 1<<20)
		}
	})
}

// On a real socket the answer must not be lost to a reset while the client still sends.
func TestBD01_RefusalReachesClientThatStillSends(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.NewServer(newFake().handler(), newFake().log)
	srv.Start()
	defer srv.Close()
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	for name, body := range map[string]io.Reader{
		"declared":   strings.NewReader(jobWithBody(3 << 20)),
		"undeclared": &counted{Reader: strings.NewReader(jobWithBody(3 << 20))},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/jobs", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		shown := `"limit_bytes":1048576`
		if name == "declared" {
			shown = `"limit":1048576,"current":` + strconv.FormatInt(req.ContentLength, 10) + "," + shown
		}
		if resp.StatusCode != http.StatusRequestEntityTooLarge || err != nil || !strings.Contains(string(text), shown) {
			t.Errorf("%s: answered %d %s, %v", name, resp.StatusCode, text, err)
		}
	}
}

// A client that asks first, and says how much it has, sends nothing.
func TestTooLargeIsToldBeforeTheBodyIsSent(t *testing.T) {
	rt := transport(t, serve(t, newFake().handler()), false)
	rt.ExpectContinueTimeout = time.Hour
	body := &counted{Reader: strings.NewReader(jobWithBody(3 << 20))}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node/jobs", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 3 << 20
	req.Header.Set("Expect", "100-continue")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || body.n.Load() != 0 {
		t.Errorf("status %d after %d bytes", resp.StatusCode, body.n.Load())
	}
}

func TestBodySizes(t *testing.T) {
	whole := jobWithBody(100)
	for _, c := range []struct {
		limit  int64
		status int
	}{
		{0, 201}, // no limit
		{int64(len(whole)), 201},
		{int64(len(whole)) - 1, 413},
		{1, 413},
	} {
		for _, known := range []bool{true, false} {
			body := io.Reader(strings.NewReader(whole))
			if !known {
				body = &counted{Reader: iotest.OneByteReader(body)}
			}
			h := newFake().handler(func(cfg *api.Config) { cfg.MaxBodyBytes = c.limit })
			if resp, text := ask(t, client.InProcess(h), http.MethodPost, "/jobs", body); resp.StatusCode != c.status {
				t.Errorf("limit %d, length known %v: answered %d %s, want %d", c.limit, known, resp.StatusCode, text, c.status)
			}
		}
	}
}

// Buffers are used again: no request may see a byte of another one.
func TestBodiesDoNotMix(t *testing.T) {
	f := newFake()
	var kept []*job.Request
	f.submit = func(_ context.Context, s intake.Submission) (intake.Receipt, error) {
		kept = append(kept, s.Request)
		return intake.Receipt{ID: idOf(1), Status: job.Queued}, nil
	}
	rt := client.InProcess(f.handler())
	for _, fill := range []string{"a", "b", "c"} {
		body := strings.Replace(valid, `"u"`, `"`+strings.Repeat(fill, 50)+`"`, 1)
		ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(strings.Replace(body, "{", `{"body":"`+strings.Repeat(fill, 2000)+`",`, 1)))
	}
	for i, fill := range []string{"a", "b", "c"} {
		if r := kept[i]; r.UserID != strings.Repeat(fill, 50) || !bytes.Equal(r.Body, bytes.Repeat([]byte(fill), 2000)) {
			t.Errorf("request %d has user %s", i, r.UserID)
		}
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	resp, body := ask(t, client.InProcess(newFake().handler()), http.MethodPost, "/jobs",
		io.MultiReader(strings.NewReader(valid[:20]), iotest.ErrReader(errors.New("cable cut"))))
	if resp.StatusCode != http.StatusBadRequest || body != `{"error":"the body could not be read"}`+"\n" {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

// trickle sends text byte by byte, one every 3 s, until the peer is gone.
func trickle(conn net.Conn, text string) {
	for i := range text {
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
		time.Sleep(3 * time.Second)
	}
}

// lifetime is how long the server keeps a connection on which it is sent text slowly, behind a fast
// start; and what it answers.
func lifetime(t *testing.T, h http.Handler, fast, slow string) (time.Duration, string) {
	conn, err := serve(t, h).dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	defer func() { _ = conn.Close() }()
	start := time.Now()
	sender.Go(func() {
		_, _ = io.WriteString(conn, fast)
		trickle(conn, slow)
	})
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the connection broke: %v", err)
	}
	return time.Since(start), string(text)
}

func TestSL01_HeadersMustArriveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lived, answer := lifetime(t, newFake().handler(), "", "GET /health HTTP/1.1\r\nHost: node\r\nX-Long: "+strings.Repeat("x", 100))
		if lived != 10*time.Second {
			t.Errorf("cut after %v, answered %q; want 10 s", lived, answer)
		}
	})
}

func TestSL01_BodyMustArriveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lived, answer := lifetime(t, newFake().handler(), "POST /jobs HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n", strings.Repeat("x", 1000))
		if lived != time.Minute || !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "the body must arrive within 60 s") || !strings.Contains(answer, "Connection: close") {
			t.Errorf("cut after %v, answered %q; want a 400 after 60 s", lived, answer)
		}
	})
}

func TestIdleConnectionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lived, answer := lifetime(t, newFake().handler(), "GET /ready HTTP/1.1\r\nHost: node\r\n\r\n", "")
		if lived != 2*time.Minute || !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Errorf("closed after %v, answered %q; want 120 s", lived, answer)
		}
	})
}

// The deadline of a body must not end a request that takes long for other reasons, nor the next one.
func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.submit = func(ctx context.Context, _ intake.Submission) (intake.Receipt, error) {
			time.Sleep(10 * time.Minute)
			return intake.Receipt{ID: idOf(1), Status: job.Queued}, ctx.Err()
		}
		rt := transport(t, serve(t, f.handler()), false)
		for range 2 {
			if resp, text := ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(valid)); resp.StatusCode != http.StatusCreated {
				t.Errorf("answered %d %s", resp.StatusCode, text)
			}
		}
	})
}

// Large bodies are held only while there is memory for them, and small ones need none. A body that is
// refused leaves nothing reserved, nor does one that breaks off.
func TestLargeBodiesNeedMemory(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testLargeBodiesNeedMemory(t, h2) })
	}
}

func testLargeBodiesNeedMemory(t *testing.T, h2 bool) {
	f := newFake()
	f.memory = 300 << 10
	rt := transport(t, serve(t, f.handler()), h2)
	post := func(body io.Reader) (*http.Response, string) { return ask(t, rt, http.MethodPost, "/jobs", body) }

	if resp, _ := post(strings.NewReader(jobWithBody(200 << 10))); resp.StatusCode != http.StatusCreated {
		t.Errorf("HTTP/2 %v, with memory: status %d", h2, resp.StatusCode)
	}
	for name, body := range map[string]io.Reader{
		"declared":   strings.NewReader(jobWithBody(500 << 10)),
		"undeclared": &counted{Reader: strings.NewReader(jobWithBody(500 << 10))},
	} {
		resp, text := post(body)
		want := `{"error":"memory is over its limit","limit_reason":"memory","limit":307200,"current":524288}` + "\n"
		if resp.StatusCode != http.StatusTooManyRequests || text != want || resp.Header.Get("Retry-After") != "5" {
			t.Errorf("HTTP/2 %v, %s: status %d %v %s", h2, name, resp.StatusCode, resp.Header, text)
		}
	}
	if err := f.Reserve(f.memory); err != nil {
		t.Errorf("HTTP/2 %v: %v", h2, err)
	}
	if resp, _ := post(strings.NewReader(jobWithBody(60 << 10))); resp.StatusCode != http.StatusCreated {
		t.Errorf("HTTP/2 %v, small: status %d", h2, resp.StatusCode)
	}
	f.Release(f.memory)

	broken := io.MultiReader(strings.NewReader(jobWithBody(200 << 10)[:150<<10]), iotest.ErrReader(errors.New("broke off")))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node/jobs", broken)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := rt.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
	}
	synctest.Wait()
	if n := f.reserved.Load(); n != 0 {
		t.Errorf("HTTP/2 %v: %d bytes are still reserved", h2, n)
	}
}
