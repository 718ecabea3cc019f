package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/api"
)

// discard takes an answer for nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkSubmit is the work of the face itself: route, read, decode, check, answer.
func BenchmarkSubmit(b *testing.B) {
	h := newFake().handler()
	body := strings.Replace(valid, `{`, `{"headers":{"Authorization":"Bearer abc"},"body":"`+strings.Repeat("x", 256)+`",`, 1)
	src := strings.NewReader("")
	template := httptest.NewRequest(http.MethodPost, "/jobs", nil)
	template.Body, template.ContentLength = io.NopCloser(src), int64(len(body))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(body)
		r := *template
		w := &discard{make(http.Header)}
		h.ServeHTTP(w, &r)
	}
}

// BenchmarkSubmitServer adds net/http, over loopback, with both ends in this process.
func BenchmarkSubmitServer(b *testing.B) {
	f := newFake()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.NewServer(f.handler(), f.log)
	srv.Start()
	defer srv.Close()
	rt := &http.Transport{MaxIdleConnsPerHost: 64}
	defer rt.CloseIdleConnections()
	body := strings.Replace(valid, `{`, `{"body":"`+strings.Repeat("x", 256)+`",`, 1)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL+"/jobs", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			if resp.StatusCode != http.StatusCreated {
				b.Errorf("status %d", resp.StatusCode)
			}
			var buf [512]byte
			for err == nil {
				_, err = resp.Body.Read(buf[:])
			}
			_ = resp.Body.Close()
		}
	})
}
