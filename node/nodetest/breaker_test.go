package nodetest_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// shownBreaker is a breaker as a target shows it. Times are Unix ms.
type shownBreaker struct {
	State, Kind, Reason string
	Since, Until        int64
}

// ends has a job of one attempt end with this status or error.
func (s *stage) ends(want string) {
	s.t.Helper()
	j := s.ended(s.submit(retries(0)))
	if a := j.Attempts[0]; want != string(a.Error) && want != strconv.Itoa(a.ResponseStatus) {
		s.t.Errorf("the attempt ended with %+v, want %s", a, want)
	}
}

// fail has so many end without a connection.
func (s *stage) fail(jobs int) {
	s.t.Helper()
	for range jobs {
		s.ends("connect_refused")
	}
}

// A target that refuses three connections in a row has an open breaker until its cooldown is over, whether or not
// anything waits for it. Queued work goes on meanwhile, and finds the target well before that.
func TestATargetThatCannotBeReachedOpensItsBreaker(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Stop()
		s.fail(2)
		if got := s.shows().Breaker; got != (shownBreaker{State: "closed"}) {
			t.Errorf("after two failures it is %+v", got)
		}
		s.fail(1)
		got := s.shows()
		if b := got.Breaker; b.State != "open" || b.Kind != "reroute" || b.Reason != "upstream_unreachable" || b.Until-b.Since != 7000 ||
			time.Now().UnixMilli()-b.Since > 1000 || got.Backlog != 0 {
			t.Errorf("after three failures it is %+v, with %d jobs left", b, got.Backlog)
		}
		if n := s.node.Gauge("aquifer_breaker_trips_total"); n != 1 {
			t.Errorf("%v trips", n)
		}
		s.target.Start()
		s.ends("200")
		if b := s.shows().Breaker; b.State != "open" {
			t.Errorf("a success during the cooldown made it %+v", b)
		}
		<-time.After(time.Until(time.UnixMilli(got.Breaker.Until + 1)))
		if b := s.shows().Breaker; b != (shownBreaker{State: "closed"}) {
			t.Errorf("after the cooldown it is %+v", b)
		}
		if all := s.targets("/targets"); len(all) != 1 || all[0].Breaker.State != "closed" {
			t.Errorf("listed as %+v", all)
		}
	}, takes(100, 1), func(c *node.Config) { c.Breaker.CooldownSeconds = 7 })
}

// One answer between failures is enough to keep the breaker closed, and what a target says of its load to a queued
// attempt is no reason to open it.
func TestAnAnswerKeepsABreakerClosed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done"), nodetest.Status(http.StatusServiceUnavailable).With("Retry-After", "9").
			With("X-Aqueduct-Reroute-Codes", "5xx").With("X-Aqueduct-Queue-Active", "true").
			With("endpoint-load-metrics", "TEXT kv_cache_usage_perc=0.99"))
		for _, want := range []string{"200", "503"} {
			s.target.Stop()
			s.fail(2)
			s.target.Start()
			s.ends(want)
			if b := s.shows().Breaker; b != (shownBreaker{State: "closed"}) {
				t.Errorf("it is %+v", b)
			}
		}
		s.target.Stop()
		s.fail(2)
		if b := s.shows().Breaker; b != (shownBreaker{State: "closed"}) {
			t.Errorf("after six failures, never three in a row, it is %+v", b)
		}
		s.fail(1)
		if b := s.shows().Breaker; b.State != "open" {
			t.Errorf("after three in a row it is %+v", b)
		}
	}, takes(100, 1))
}
