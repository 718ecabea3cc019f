package registry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// api is a node's API as its control plane sees it. It wants what the contract wants of POST /jobs, and
// answers with the pace that it wishes.
type api struct {
	rps string
	mu  sync.Mutex
	got []string
	at  []time.Time
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.got, a.at = append(a.got, r.URL.Path+" "+string(body)), append(a.at, time.Now())
	n := len(a.got)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Aqueduct-Rps", a.rps)
	if strings.Contains(string(body), `"webhook_url":null`) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintln(w, `{"error":"webhook_url is required"}`)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"job_id":"%d"}`, n)
}

// post sends a call to the control plane.
func (s *stage) post(ctx context.Context, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+controlPlane+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return s.net.transport(s.T, "10.0.0.8").RoundTrip(req)
}

// answered posts a call and checks status and body of the answer.
func (s *stage) answered(path, body string, status int, want string) {
	s.Helper()
	resp, err := s.post(s.Context(), path, body)
	if err != nil {
		s.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || strings.TrimSpace(string(got)) != want {
		s.Errorf("%s: %d %s, %v; want %d %s", body, resp.StatusCode, got, err, status, want)
	}
	if resp.Header.Get("X-Aqueduct-Rps") != "" {
		s.Error("Canalis relays no headers")
	}
}

const bare = `{"user_id":%q,"idempotent_key":"k","url":"http://api","method":"GET","webhook_url":"http://me"}`

// What is absent reaches the node as null, and its refusal reaches the caller.
func TestCanalisSendsNulls(t *testing.T) {
	play(t, func(s *stage) {
		a := &api{}
		s.net.serve(s.T, node, a)
		s.answered("/jobs", fmt.Sprintf(bare, "u"), http.StatusCreated, `{"job_id":"1"}`)
		s.answered("/proxy", `{"user_id":"u"}`, http.StatusBadRequest, `{"error":"webhook_url is required"}`)
		want := []string{
			`/jobs {"user_id":"u","idempotent_key":"k","url":"http://api","method":"GET","headers":null,"body":null,"webhook_url":"http://me"}`,
			`/proxy {"user_id":"u","idempotent_key":"","url":"","method":"","headers":null,"body":null,"webhook_url":null}`,
		}
		if strings.Join(a.got, "\n") != strings.Join(want, "\n") {
			s.Errorf("the node got\n%s", strings.Join(a.got, "\n"))
		}
		s.answered("/register", `{"port":7000,"reported_at":"now"}`, http.StatusBadRequest, "port and reported_at must be texts")
		s.answered("/jobs", `{`, http.StatusBadRequest, "unexpected EOF")
	})
}

// Calls wait while no node is free. The first one that registers gets a tenant's backlog, at its own pace,
// and is that tenant's from then on.
func TestCanalisKeepsABacklog(t *testing.T) {
	rehearse(t, func(s *stage) {
		a := &api{rps: "4"}
		s.net.serve(s.T, node, a)
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				resp, err := s.post(s.Context(), "/jobs", fmt.Sprintf(bare, "ada"))
				if err != nil || resp.StatusCode != http.StatusCreated {
					s.Errorf("%v, %v", resp, err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		synctest.Wait()
		impatient, hangUp := context.WithTimeout(s.Context(), time.Minute)
		defer hangUp()
		callers.Go(func() {
			if resp, err := s.post(impatient, "/jobs", fmt.Sprintf(bare, "bob")); err == nil {
				_ = resp.Body.Close()
				s.Error("bob was served")
			}
		})
		time.Sleep(time.Second)
		s.run()
		callers.Wait()
		if n := len(a.at); n != 5 || a.at[1].Sub(a.at[0]) != 250*time.Millisecond || a.at[4].Sub(a.at[0]) != time.Second {
			s.Errorf("the node was called at %v", a.at)
		}
		s.answered("/jobs", fmt.Sprintf(bare, "ada"), http.StatusCreated, `{"job_id":"6"}`)
	})
}

// A stream reaches the caller as it comes.
func TestCanalisRelaysStreams(t *testing.T) {
	play(t, func(s *stage) {
		s.net.serve(s.T, node, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "event: %d\n\n", i)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}))
		start := time.Now()
		resp, err := s.post(s.Context(), "/proxy", fmt.Sprintf(bare, "u"))
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		for n := 0; lines.Scan(); n++ {
			if at := time.Duration(n/2) * time.Second; n%2 == 0 && (lines.Text() != fmt.Sprintf("event: %d", n/2) || time.Since(start) != at) {
				s.Errorf("line %d after %v: %s", n, time.Since(start), lines.Text())
			}
		}
		if took := time.Since(start); took != 3*time.Second {
			s.Errorf("ended after %v", took)
		}
	})
}

// A node that is gone is no answer.
func TestCanalisCannotReachTheNode(t *testing.T) {
	play(t, func(s *stage) {
		s.answered("/jobs", fmt.Sprintf(bare, "u"), http.StatusBadGateway, "dial tcp: connection refused")
	})
}

// Without its pings a node is forgotten after 45 s.
func TestCanalisForgets(t *testing.T) {
	play(t, func(s *stage) {
		s.down()
		time.Sleep(45*time.Second - time.Millisecond)
		if !s.live() {
			s.Error("forgotten too early")
		}
		time.Sleep(time.Millisecond)
		if s.live() {
			s.Error("not forgotten")
		}
		s.up()
		time.Sleep(6 * time.Second)
		if !s.live() || s.canalis.Lapses() != 1 {
			s.Errorf("registered %v, %d lapses", s.canalis.Instances(), s.canalis.Lapses())
		}
	})
}
