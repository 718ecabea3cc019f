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

func benchHeaders() (headers, extra []job.Header) {
	headers = []job.Header{{Name: "Authorization", Value: "Bearer abc"}, {Name: "Content-Type", Value: "application/json"}}
	id := Identity{NodeID: "node-1", JobID: "0123456789abcdef0123456789abcdef", Attempt: 1, KeyHash: "0123456789abcdef"}
	return headers, Headers(id, Load{TotalJobs: 12345, QueueDepth: 12300, FlowRate: 2, ActiveQueues: 64, UpstreamBacklog: 12300})
}

// BenchmarkDo compares an attempt with net/http's bare transport, with the same headers and body, 64 at
// a time. CPU is that of both ends, so only the difference speaks about this package.
func BenchmarkDo(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer srv.Close()
	body := bytes.Repeat([]byte("x"), 256)

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
			headers, extra := benchHeaders()
			for name, value := range (fields{headers, extra}).each {
				req.Header[name] = []string{value}
			}
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
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		measure(b, func() bool {
			headers, extra := benchHeaders()
			o, _ := d.Do(ctx, Call{
				Method: http.MethodPost, URL: srv.URL + "/path", Headers: headers, Extra: extra, Body: body, Timeout: time.Minute,
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

func BenchmarkHeaders(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		headers, extra := benchHeaders()
		for name, value := range (fields{headers, extra}).each {
			if name == "" && value == "" {
				b.Fatal("no header")
			}
		}
	}
}
