package dispatch

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// BenchmarkDo compares an attempt with the bare transport that it is made by, with the same headers
// and body, 64 at a time. CPU is that of both ends, so only the difference speaks about this package.
func BenchmarkDo(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer srv.Close()
	body := bytes.Repeat([]byte("x"), 256)
	headers := []job.Header{{Name: "Authorization", Value: "Bearer abc"}, {Name: "Content-Type", Value: "application/json"}}
	identity := Identity{NodeID: "node-1", JobID: "0123456789abcdef0123456789abcdef", Attempt: 1, KeyHash: "0123456789abcdef"}

	b.Run("bare", func(b *testing.B) {
		tr := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 256, DisableCompression: true}
		defer tr.CloseIdleConnections()
		measure(b, func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/path", bytes.NewReader(body))
			if err != nil {
				return false
			}
			req.Header = compose(headers, Headers(identity, Load{FlowRate: 2}))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				return false
			}
			defer func() { _ = resp.Body.Close() }()
			_, err = io.ReadAll(resp.Body)
			return err == nil
		})
	})
	b.Run("dispatch", func(b *testing.B) {
		d := dispatcher(b, egress.Config{}, 1<<20)
		measure(b, func() bool {
			o, _ := d.Do(context.Background(), Call{
				Method: http.MethodPost, URL: srv.URL + "/path", Headers: headers, Extra: Headers(identity, Load{FlowRate: 2}),
				Body: body, Timeout: time.Minute,
			})
			return o.Status == http.StatusOK
		})
	})
}

func measure(b *testing.B, exchange func() bool) {
	b.ReportAllocs()
	b.SetParallelism(32)
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !exchange() {
				b.Error("exchange failed")
				return
			}
		}
	})
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkCompose(b *testing.B) {
	headers := []job.Header{{Name: "Authorization", Value: "Bearer abc"}, {Name: "Content-Type", Value: "application/json"}}
	identity := Identity{NodeID: "node-1", JobID: "0123456789abcdef0123456789abcdef", Attempt: 1, KeyHash: "0123456789abcdef"}
	b.ReportAllocs()
	for b.Loop() {
		compose(headers, Headers(identity, Load{FlowRate: 2}))
	}
}
