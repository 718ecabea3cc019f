package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

func TestEveryCauseHasAClass(t *testing.T) {
	for _, c := range egress.Causes() {
		if class, ok := classes[c]; !ok || !slices.Contains(job.ErrorClasses(), class) {
			t.Errorf("cause %v has class %q", c, class)
		}
	}
}

func TestRetryableStatuses(t *testing.T) {
	for status := 200; status < 600; status++ {
		want := status >= 500 || status == 408 || status == 425 || status == 429
		o := Outcome{Status: status}
		if o.Retryable() != want {
			t.Errorf("%d: retryable %v", status, o.Retryable())
		}
		if o.NoRetry = true; o.Retryable() {
			t.Errorf("%d: retryable although the target does not want it", status)
		}
	}
	for _, class := range job.ErrorClasses() {
		if o := (Outcome{Status: 200, Class: class}); o.Retryable() == class.Final() {
			t.Errorf("%s: retryable %v", class, o.Retryable())
		}
	}
}

func TestAnswersAndSignals(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  string
		status  int
		body    string
		retry   bool
		noRetry bool
		signal  pace.Signal
	}{
		"success": {okAnswer, 200, "ok", false, false, pace.Signal{Status: 200}},
		"503": {
			"HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy", 503, "busy", true, false,
			pace.Signal{Status: 503, Failed: true, RetryAfter: pace.RetryAfter{Wait: 7 * time.Second, Raw: "7", Header: "Retry-After", OK: true}},
		},
		"429 for good": {
			"HTTP/1.1 429 X\r\nX-Aqueduct-No-Retry: true\r\nContent-Length: 0\r\n\r\n", 429, "", false, true,
			pace.Signal{Status: 429, Failed: true, NoRetry: true},
		},
		"200, which needs no retry anyway": {
			"HTTP/1.1 200 OK\r\nX-Aqueduct-No-Retry: true\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false, false, pace.Signal{Status: 200},
		},
		"404": {"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", 404, "", false, false, pace.Signal{Status: 404}},
	} {
		t.Run(name, func(t *testing.T) {
			tg := newTarget(t, always(tt.answer))
			o, s := dispatcher(t, egress.Config{}, 0).Do(t.Context(), Call{Method: "POST", URL: tg.url})
			if o.Status != tt.status || string(o.Body) != tt.body || o.Class != "" || o.MaybeExecuted || o.Truncated || o.StartedAt.IsZero() || o.Took <= 0 {
				t.Errorf("outcome %+v", o)
			}
			if o.Retryable() != tt.retry || o.NoRetry != tt.noRetry || s != tt.signal {
				t.Errorf("retryable %v, no retry %v, signal %+v, want %+v", o.Retryable(), o.NoRetry, s, tt.signal)
			}
			if want := fmt.Sprintf("upstream returned %d", tt.status); o.Reason() != want {
				t.Errorf("reason %q", o.Reason())
			}
		})
	}
}

func TestBD02_BytesInSameBytesOut(t *testing.T) { testBytes(t, "\xFF\xFE\x00\xC3\x28") }

func TestBD03_NothingIsParsedAndPrinted(t *testing.T) {
	testBytes(t, `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`)
}

func testBytes(t *testing.T, body string) {
	for _, head := range []string{
		fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: %d\r\n\r\n", len(body)),
		fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(body)),
	} {
		tg := newTarget(t, always(head+body))
		o, _ := dispatcher(t, egress.Config{}, 0).Do(t.Context(), Call{Method: "POST", URL: tg.url, Body: []byte(body)})
		if string(o.Body) != body || o.Header.Get("Content-Type") != "a/b" {
			t.Errorf("answer is %q of type %q", o.Body, o.Header.Get("Content-Type"))
		}
		if got := tg.requests()[0].body; got != body {
			t.Errorf("target read %q", got)
		}
	}
}

func TestHP01_ConnectionClosedUnderTheRequest(t *testing.T) {
	tg := newTarget(t, func(n int) string {
		if n == 2 {
			return ""
		}
		return okAnswer
	})
	d := dispatcher(t, egress.Config{}, 0)
	call := Call{Method: "POST", URL: tg.url, Body: []byte("payload"), Headers: []job.Header{{Name: "Idempotency-Key", Value: "k"}}}
	if o, _ := d.Do(t.Context(), call); o.Status != 200 {
		t.Fatalf("outcome %+v", o)
	}
	o, s := d.Do(t.Context(), call)
	if o.Class != job.ConnClosed || !o.MaybeExecuted || !o.Retryable() || o.Status != 0 || !s.Failed {
		t.Errorf("outcome %+v, signal %+v", o, s)
	}
	if n := len(tg.requests()); n != 2 {
		t.Errorf("target read %d requests, want 2", n)
	}
	if o, _ := d.Do(t.Context(), call); o.Status != 200 || tg.requests()[2].body != "payload" {
		t.Errorf("the next attempt: %+v", o)
	}
}

func TestHP04_RedirectIsTheResult(t *testing.T) {
	for _, status := range []int{302, 307, 308} {
		for _, to := range []string{"/x", "http://other.test/", "http://169.254.169.254/"} {
			tg := newTarget(t, always(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, to)))
			o, s := dispatcher(t, egress.Config{}, 0).Do(t.Context(), Call{Method: "POST", URL: tg.url, Body: []byte("x")})
			if o.Status != status || o.Class != "" || o.Retryable() || s.Failed || o.Header.Get("Location") != to {
				t.Errorf("%d to %s: %+v", status, to, o)
			}
		}
	}
}

func TestHP04_FollowedWithoutSecrets(t *testing.T) {
	other := newTarget(t, always(okAnswer))
	tg := newTarget(t, always("HTTP/1.1 307 X\r\nLocation: "+other.url+"/end\r\nContent-Length: 0\r\n\r\n"))
	d := dispatcher(t, egress.Config{FollowRedirects: 5}, 0)
	o, _ := d.Do(t.Context(), Call{Method: "POST", URL: tg.url, Body: []byte("payload"), Headers: []job.Header{
		{Name: "authorization", Value: "s1"}, {Name: "Cookie", Value: "s2"}, {Name: "x-api-key", Value: "s3"}, {Name: "X-Plain", Value: "v"},
	}})
	if o.Status != 200 || len(other.requests()) != 1 {
		t.Fatalf("outcome %+v", o)
	}
	w := other.requests()[0]
	if all := strings.Join(w.headers, "\n"); w.body != "payload" || strings.Contains(all, "s1") || strings.Contains(all, "s2") || strings.Contains(all, "s3") || !strings.Contains(all, "X-Plain: v") {
		t.Errorf("the other host read %+v", w)
	}
}

func noDial(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("dialled %s", address)
		return nil, errors.New("must not be dialled")
	}
}

func TestSF01_BlockedTargetIsFinal(t *testing.T) {
	d := dispatcher(t, egress.Config{Dial: noDial(t)}, 0)
	for _, url := range []string{
		"http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::1]/", "http://2852039166/",
		"http://0xA9FEA9FE/", "http://0251.0376.0251.0376/", "http://metadata.google.internal/", "http://[fd00:ec2::254]/", "http://169.254.170.2/",
		"http://user:pw@169.254.169.254/",
	} {
		o, s := d.Do(t.Context(), Call{Method: "POST", URL: url})
		if o.Class != job.BlockedTarget || o.Retryable() || o.MaybeExecuted || s != (pace.Signal{}) {
			t.Errorf("%s: %+v, %+v", url, o, s)
		}
		if !strings.HasPrefix(o.Reason(), "egress guard refused ") {
			t.Errorf("%s: the tenant is told %q", url, o.Reason())
		}
	}
}

func TestSF03_PrivateTargetsInPublic(t *testing.T) {
	d := dispatcher(t, egress.Config{Dial: noDial(t), Public: true}, 0)
	for _, url := range []string{"http://100.64.0.1/", "http://[fdaa:0:1::3]/", "http://10.1.2.3/", "http://127.0.0.1/"} {
		if o, _ := d.Do(t.Context(), Call{Method: "POST", URL: url}); o.Class != job.BlockedTarget || o.Retryable() {
			t.Errorf("%s: %+v", url, o)
		}
	}
}

func TestLongAnswerIsCut(t *testing.T) {
	tg := newTarget(t, always("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nsechs Stück"))
	for limit, want := range map[int64]string{0: "sechs Stück", 100: "sechs Stück", 9: "sechs St", 10: "sechs Stü", 5: "sechs"} {
		o, _ := dispatcher(t, egress.Config{}, limit).Do(t.Context(), Call{Method: "GET", URL: tg.url})
		if string(o.Body) != want || o.Truncated != (limit == 9 || limit == 10 || limit == 5) || o.Class != "" {
			t.Errorf("limit %d: %q, truncated %v, %q", limit, o.Body, o.Truncated, o.Class)
		}
	}
}

func TestBrokenAnswerKeepsItsStatusButDecidesNothing(t *testing.T) {
	tg := newTarget(t, always("HTTP/1.1 200 OK\r\nX-Shown: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nnonsense\r\n"))
	o, s := dispatcher(t, egress.Config{}, 0).Do(t.Context(), Call{Method: "POST", URL: tg.url})
	if o.Status != 200 || o.Header.Get("X-Shown") != "1" || o.Body != nil || o.Class != job.ProtocolError || !o.MaybeExecuted || !o.Retryable() {
		t.Errorf("outcome %+v", o)
	}
	if s.Status != 200 || !s.Failed {
		t.Errorf("signal %+v", s)
	}
}

func TestTimeoutIsNotCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := egress.New(egress.Config{Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "never.test") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			near, far := net.Pipe()
			go func() { // a target that reads and says nothing
				defer func() { _ = far.Close() }()
				for buf := make([]byte, 512); ; {
					if _, err := far.Read(buf); err != nil {
						return
					}
				}
			}()
			return near, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d := New(Config{Client: c})

		o, s := d.Do(t.Context(), Call{Method: "POST", URL: "http://mute.test/", Timeout: 30 * time.Second})
		if o.Class != job.Timeout || !o.MaybeExecuted || o.Canceled() || !s.Failed || o.Took != 30*time.Second {
			t.Errorf("timeout: %+v, %+v", o, s)
		}
		if want := "no whole answer within 30s"; o.Reason() != want {
			t.Errorf("reason %q, want %q", o.Reason(), want)
		}
		o, s = d.Do(t.Context(), Call{Method: "POST", URL: "http://never.test/", Timeout: 2 * time.Second})
		if o.Class != job.ConnectTimeout || o.MaybeExecuted || o.Canceled() || !s.Failed || o.Took != 2*time.Second {
			t.Errorf("connect timeout: %+v, %+v", o, s)
		}
		o, _ = d.Do(t.Context(), Call{Method: "POST", URL: "http://never.test/", Timeout: time.Hour})
		if o.Class != job.ConnectTimeout || o.Took != 10*time.Second || strings.Contains(o.Reason(), "1h") {
			t.Errorf("the client's own limit: %+v", o)
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		o, s = d.Do(ctx, Call{Method: "POST", URL: "http://mute.test/"})
		if !o.Canceled() || o.Class != job.Internal || !o.MaybeExecuted || s != (pace.Signal{}) || o.Took != time.Hour || !errors.Is(o.Err, context.Canceled) {
			t.Errorf("cancelled: %+v, %+v", o, s)
		}
	})
}
