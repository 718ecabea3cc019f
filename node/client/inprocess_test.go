package client_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

func roundTrip(t *testing.T, h http.HandlerFunc, body io.Reader) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node:81/a%2Fb?q=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return client.InProcess(h).RoundTrip(req)
}

func TestInProcessRequestLooksLikeAServers(t *testing.T) {
	resp, err := roundTrip(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.RequestURI != "/a%2Fb?q=1" || r.URL.Path != "/a/b" || r.URL.Host != "" || r.Host != "node:81" || string(body) != "hello" || err != nil {
			t.Errorf("got %s, %+v, host %s, body %q, %v", r.RequestURI, r.URL, r.Host, body, err)
		}
		w.Header().Set("X-A", "before")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-A", "after")
		w.WriteHeader(http.StatusOK)
	}, strings.NewReader("hello"))
	if err != nil || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-A") != "before" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if body, err := io.ReadAll(resp.Body); len(body) != 0 || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	_ = resp.Body.Close()
}

func TestInProcessWithoutBodyOrAnswer(t *testing.T) {
	resp, err := roundTrip(t, func(_ http.ResponseWriter, r *http.Request) {
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d, %v", n, err)
		}
	}, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %+v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

func TestInProcessPanics(t *testing.T) {
	if resp, err := roundTrip(t, func(http.ResponseWriter, *http.Request) { panic("early") }, nil); err == nil || !strings.Contains(err.Error(), "handler panicked: early") {
		t.Errorf("got %v, %v", resp, err)
	}
	resp, err := roundTrip(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("late")
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if string(body) != "half" || err == nil || !strings.Contains(err.Error(), "handler panicked: late") {
		t.Errorf("body %q, %v", body, err)
	}
	_ = resp.Body.Close()
}

func TestInProcessWritesWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		var after time.Duration
		resp, err := roundTrip(t, func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.Flush(); err != nil {
				t.Error(err)
			}
			start := time.Now()
			if err := rc.SetWriteDeadline(start.Add(time.Minute)); err != nil {
				t.Error(err)
			}
			_, failed = io.WriteString(w, "nobody reads this")
			after = time.Since(start)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !errors.Is(failed, os.ErrDeadlineExceeded) || after != time.Minute {
			t.Errorf("the write ended after %v with %v", after, failed)
		}
		_ = resp.Body.Close()
	})
}

func TestInProcessCloseEndsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		resp, err := roundTrip(t, func(w http.ResponseWriter, r *http.Request) {
			for failed == nil {
				_, failed = io.WriteString(w, "more ")
			}
			<-r.Context().Done()
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 7)); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if synctest.Wait(); failed == nil {
			t.Error("the handler goes on")
		}
	})
}
