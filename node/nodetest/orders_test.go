package nodetest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// order is ask for an order that must be taken.
func (s *stage) order(method, path, body string) {
	s.t.Helper()
	if status, answer := s.ask(method, path, body); status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// An order whose caller hangs up while the disk is stuck takes effect when it is stored, and not only at the next start.
func TestAnOrderOutlivesItsCaller(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(time.Minute))
		s.submit()
		s.node.MayFail = true
		for round, patience := range []time.Duration{time.Second, time.Minute} {
			s.node.Disk.Stick(true)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.node.URL()+"/targets/target.test/limits",
				strings.NewReader(fmt.Sprintf(`{"rps":%d}`, 70+round)))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Transport("operator.test").RoundTrip(req)
			switch gaveUp := round == 0; {
			case gaveUp && err == nil, !gaveUp && err != nil:
				t.Fatalf("round %d: %v", round, err)
			case err == nil:
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("on a stuck disk: %d %v", resp.StatusCode, resp.Header)
				}
			}
			if o := s.shows().Ordered; o != nil && o.RPS != 70 {
				t.Errorf("before it is stored, the order %+v is in force", o)
			}
			s.node.Disk.Stick(false)
			s.Until(time.Second, "the order is in force", func() bool {
				o := s.shows().Ordered
				return o != nil && o.RPS == float64(70+round)
			})
		}
	}, synced)
}

// An operator pauses a target: nothing is sent, also by the next process, until it is resumed.
func TestAPausedTargetIsLeftAlone(t *testing.T) {
	for _, by := range deaths() {
		t.Run(by.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.order(http.MethodPost, "/targets/target.test/pause", "")
				id := s.submit()
				if n := s.between(time.Hour); n != 0 {
					t.Errorf("%d calls while paused", n)
				}
				if got := s.shows(); got.State != "paused" || got.Backlog != 1 || got.Ordered == nil || !got.Ordered.Paused {
					t.Errorf("shown as %+v", got)
				}
				if w := s.get(id).Waiting; w == nil || w.For != "not_ready" {
					t.Errorf("the job waits for %+v", w)
				}
				if _, answer := s.ask(http.MethodGet, "/jobs/"+id, ""); strings.Contains(answer, "eta_ms") {
					t.Errorf("nobody knows until when, but told is %s", answer)
				}
				if data := s.place(id); data != `{"job_id":"`+id+`","position":1}` {
					t.Errorf("nobody knows until when, but the stream tells %s", data)
				}
				s.node.Kill(by)
				s.node.Start()
				if n := s.between(time.Hour); n != 0 {
					t.Errorf("%d calls by the next process", n)
				}
				s.order(http.MethodPost, "/targets/target.test/resume", "")
				tells(t, s.settled(id), "completed 200: 200; delivered after 1")
				if got := s.shows(); got.State != "running" || got.Ordered != nil {
					t.Errorf("shown as %+v", got)
				}
			}, synced)
		})
	}
}

// A pause changes nothing about what a target has asked of a tenant; limits that are ordered do.
func TestAPauseIsNoFreshStart(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(429).With("Retry-After", "600"), nodetest.Text("done"))
		s.submit()
		s.submit()
		<-time.After(time.Second)
		s.order(http.MethodPost, "/targets/target.test/pause", "")
		s.order(http.MethodPost, "/targets/target.test/pause", "")
		s.order(http.MethodPost, "/targets/target.test/resume", "")
		<-time.After(5 * time.Minute)
		if n := s.calls(); n != 1 {
			t.Errorf("%d calls though the target wanted no more for ten minutes", n)
		}
		s.order(http.MethodPut, "/targets/target.test/limits", `{}`)
		<-time.After(time.Minute)
		if n := s.calls(); n != 2 {
			t.Errorf("%d calls when limits were ordered", n)
		}
	}, takes(10, 1))
}

// An operator orders limits for some time: they hold at once, also in the next process, and end by themselves.
func TestOrderedLimits(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.order(http.MethodPut, "/targets/TARGET.test.:80/limits", `{"rps": 2, "max_concurrent": 1, "ttl_seconds": 60}`)
		for range 1000 {
			s.submit()
		}
		if n := s.between(10 * time.Second); n < 19 || n > 21 {
			t.Errorf("%d calls in 10 s at 2 a second", n)
		}
		s.node.Kill(nodetest.ProcessDeath)
		s.node.Start()
		if n := s.between(10 * time.Second); n < 19 || n > 22 {
			t.Errorf("%d calls in 10 s of the next process", n)
		}
		<-time.After(41 * time.Second)
		if n := s.between(10 * time.Second); n < 98 || n > 102 {
			t.Errorf("%d calls in 10 s at 10 a second", n)
		}
		if got := s.shows(); got.Ordered != nil || got.RPS.Effective != 10 {
			t.Errorf("shown as %+v", got)
		}
	}, takes(10, 4))
}

// An order for a host without any target yet is shown too: nobody has to remember what is held back.
func TestAnOrderIsShownWithoutATarget(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.order(http.MethodPost, "/targets/Later.test.:80/pause", "")
		s.order(http.MethodPut, "/targets/later.test/limits", `{"rps": 3, "ttl_seconds": 60}`)
		for range 2 {
			for _, path := range []string{"/targets", "/targets/later.test"} {
				all := s.targets(path)
				if len(all) != 1 || all[0].Target != "" || all[0].Host != "later.test" || all[0].State != "paused" ||
					all[0].RPS != (shownLimit{Effective: 3, Configured: 3, Source: "configured"}) || all[0].MaxConcurrent.Configured != 4 ||
					all[0].Breaker.State != "closed" || all[0].Ordered == nil || !all[0].Ordered.Paused {
					t.Errorf("%s shows %+v", path, all)
				}
			}
			s.node.Kill(nodetest.ProcessDeath)
			s.node.Start()
		}
		<-time.After(time.Minute)
		if all := s.targets("/targets"); len(all) != 1 || all[0].RPS.Configured != 10 {
			t.Errorf("when the limits are over: %+v", all)
		}
		later := s.Target("later.test")
		s.submit(to(later.URL("/")))
		if all := s.targets("/targets"); len(all) != 1 || all[0].Target != "http://later.test" || all[0].Backlog != 1 {
			t.Errorf("with a job: %+v", all)
		}
		s.order(http.MethodPost, "/targets/later.test/resume", "")
		s.order(http.MethodPost, "/targets/never.test/pause", "")
		s.order(http.MethodPost, "/targets/never.test/resume", "")
		if status, answer := s.ask(http.MethodGet, "/targets/never.test", ""); status != 404 {
			t.Errorf("without an order: %d %s", status, answer)
		}
	}, takes(10, 4), synced)
}

// An order that makes no sense is refused, and says what would.
func TestOrdersThatAreRefused(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for body, want := range map[string]string{
			`{"rps": 0}`:               "rps must be from 0.001",
			`{"rps": -1}`:              "rps must be from 0.001",
			`{"rps": 1e-300}`:          "rps must be from 0.001",
			`{"rps": null}`:            "rps must be a number",
			`{"rpss": 1}`:              `one of [rps max_concurrent ttl_seconds], got \"rpss\"`,
			`{"RPS": 1}`:               `one of [rps max_concurrent ttl_seconds], got \"RPS\"`,
			`{"ttl_seconds": 60}`:      "ttl_seconds is for rps and max_concurrent",
			`null`:                     "the body must be an object, got null",
			`{"rps": "fast"}`:          "rps must be a number, got string",
			`{"rps": 1e400}`:           "rps must be a number, got 1e400",
			`{"max_concurrent": 0}`:    "max_concurrent must be from 1",
			`{"max_concurrent": 1.5}`:  "max_concurrent must be an integer of 64 bits, got 1.5",
			`{"ttl_seconds": 0}`:       "ttl_seconds must be from 1",
			`{"rps": 1, "rps": 2}`:     "invalid json: duplicate name at /rps",
			`[]`:                       "the body must be an object, got [",
			``:                         "invalid json: unexpected EOF",
			`{"rps": 1} {}`:            "invalid json: invalid character '{' after",
			`{"ttl_seconds": 1e30}`:    "ttl_seconds must be an integer of 64 bits, got 1e30",
			`{"max_concurrent": null`:  "invalid json: unexpected EOF",
			`{"max_concurrent": 1e99}`: "max_concurrent must be an integer of 64 bits, got 1e99",
		} {
			if status, answer := s.ask(http.MethodPut, "/targets/target.test/limits", body); status != 400 || !strings.Contains(answer, want) {
				t.Errorf("%s: %d %s", body, status, answer)
			}
		}
		for _, host := range []string{"a%20b", "target.test:99999", "user@target.test", "*", "a,b", "a..b", "1.2.3.4.5"} {
			if status, answer := s.ask(http.MethodPost, "/targets/"+host+"/pause", ""); status != 400 || !strings.Contains(answer, "host:port") {
				t.Errorf("%s: %d %s", host, status, answer)
			}
		}
		if status, answer := s.ask(http.MethodGet, "/targets/nobody.test", ""); status != 404 || !strings.Contains(answer, "nobody.test") {
			t.Errorf("unknown target: %d %s", status, answer)
		}
		if status, answer := s.ask(http.MethodGet, "/targets", ""); status != 200 || answer != "{\"targets\":[]}\n" {
			t.Errorf("no targets: %d %s", status, answer)
		}
	})
}

// Orders are kept for ever and come without any job: their number is bounded, and those that are in force can be changed and
// taken back beyond it.
func TestOrdersAreBounded(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		const most = 1000
		for i := range most {
			s.order(http.MethodPost, fmt.Sprintf("/targets/host-%d.test/pause", i), "")
		}
		for range 2 {
			status, h, answer := s.send(http.MethodPost, "/targets/target.test/pause", nil, nil)
			if status != http.StatusTooManyRequests || h.Get("Retry-After") == "" || !strings.Contains(answer, `"limit_reason":"orders","limit":1000,"current":1000`) {
				t.Fatalf("one more: %d %v %s", status, h, answer)
			}
			s.node.Kill(nodetest.ProcessDeath)
			s.node.Start()
		}
		s.order(http.MethodPost, "/targets/target.test/resume", "")
		s.order(http.MethodPut, "/targets/host-0.test/limits", `{"rps": 1}`)
		s.order(http.MethodPut, "/targets/host-0.test/limits", `{}`)
		s.order(http.MethodPost, "/targets/host-0.test/resume", "")
		s.order(http.MethodPost, "/targets/target.test/pause", "")
	})
}
