package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/registry"
	"github.com/aquifer-fleet/aquifer/registry/registrytest"
)

// What can be wrong with an answer, and what the log says about it. Each comes at once.
func failures() map[string]struct {
	answer http.HandlerFunc
	says   string
} {
	type failure = struct {
		answer http.HandlerFunc
		says   string
	}
	return map[string]failure{
		"bad request":       {registrytest.Status(400), "answered 400 Bad Request"},
		"who are you":       {registrytest.Status(401), "answered 401 Unauthorized"},
		"wrong path":        {registrytest.Status(404), "answered 404 Not Found"},
		"too many":          {registrytest.Status(429), "answered 429 Too Many Requests"},
		"store error":       {registrytest.Status(500), "answered 500 Internal Server Error"},
		"unavailable":       {registrytest.Status(503), "answered 503 Service Unavailable"},
		"nothing new":       {registrytest.Status(304), "answered 304 Not Modified"},
		"unknown":           {registrytest.Status(799), "answered 799"},
		"redirect":          {registrytest.Redirect("http://10.0.0.9:80/register"), "answered 307 Temporary Redirect"},
		"redirect to there": {registrytest.Redirect("/register"), "answered 307 Temporary Redirect"},
		"cut at once":       {registrytest.Cut(registrytest.CutAtOnce), "EOF"},
		"cut in the header": {registrytest.Cut(registrytest.CutInHeader), "malformed MIME header"},
		"cut in the body":   {registrytest.Cut(registrytest.CutInBody), "answer cut off: unexpected EOF"},
		"cut in a chunk":    {registrytest.Cut(registrytest.CutInChunk), "answer cut off: unexpected EOF"},
		"no HTTP":           {registrytest.Cut("SSH-2.0-OpenSSH_9.9\r\n"), "malformed HTTP"},
	}
}

// A ping that fails is repeated after 1, 2, 4 and then every 5 s, whether it landed or not, until one is
// answered. A node that was registered is so all the time.
func TestFailingControlPlane(t *testing.T) {
	for name, f := range failures() {
		for _, lands := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				play(t, func(s *stage) {
					s.canalis.Break(registrytest.Fault{Answer: f.answer, Lands: lands})
					time.Sleep(35 * time.Second)
					synctest.Wait()
					s.canalis.Break(registrytest.Fault{})
					time.Sleep(22 * time.Second)
					synctest.Wait()
					want := []time.Duration{15, 1, 2, 4, 5, 5, 5, 15}
					for i := range want {
						want[i] *= time.Second
					}
					if gaps := s.gaps(0); !slices.Equal(gaps, want) {
						s.Errorf("pinged after %v", gaps)
					}
					if !s.live() || s.canalis.Lapses() != 0 {
						s.Errorf("registered %v, %d lapses", s.canalis.Instances(), s.canalis.Lapses())
					}
					s.counted(registry.Active, "failed", 6)
					s.counted(registry.Active, "ok", 3)
					// Failures 1, 2 and 4 are told, and that it is over.
					if s.log.count(f.says) != 3 || s.log.count("level=WARN") != 3 || s.log.count("msg=registered state=active failures=6") != 1 {
						s.Errorf("want %q: %s", f.says, &s.log.text)
					}
				}, jitter(0))
			})
		}
	}
}

// What a redirect names is not called.
func TestRedirectIsNotFollowed(t *testing.T) {
	play(t, func(s *stage) {
		s.net.serve(s.T, "10.0.0.9:80", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { s.Errorf("%s %s", r.Method, r.URL) }))
		s.canalis.Break(registrytest.Fault{Answer: registrytest.Redirect("http://10.0.0.9:80/register")})
		time.Sleep(time.Minute)
	})
}

// Without a control plane nothing fails but pings; they and the log are few, and the node is there some
// seconds after it.
func TestNoControlPlaneForADay(t *testing.T) {
	rehearse(t, func(s *stage) {
		s.down()
		s.run()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		s.counted(registry.Active, "failed", 17282) // every 5 s
		if n := s.log.count("\n"); n != 15 || s.log.count("connection refused") != n {
			s.Errorf("%d lines: %s", n, &s.log.text)
		}
		s.up()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !s.live() {
			s.Error("not registered")
		}
		s.down()
		s.reg.Drain()
		if took := s.stop(); took != 0 {
			s.Errorf("stopping took %v", took)
		}
		s.counted(registry.Offline, "failed", 1)
	}, jitter(0))
}

// One ping that hangs does not cost the registration, and neither do answers that take long.
func TestSlowControlPlane(t *testing.T) {
	t.Run("one hangs", func(t *testing.T) {
		play(t, func(s *stage) {
			s.canalis.Break(registrytest.Fault{Answer: registrytest.Hang})
			time.Sleep(16 * time.Second)
			s.canalis.Break(registrytest.Fault{})
			time.Sleep(40 * time.Second)
			synctest.Wait()
			if gaps := s.gaps(0)[:3]; !slices.Equal(gaps, []time.Duration{15 * time.Second, 16 * time.Second, 15 * time.Second}) {
				s.Errorf("pinged after %v", gaps)
			}
			if !s.live() || s.canalis.Lapses() != 0 || s.log.count("no answer in time") != 1 {
				s.Errorf("registered %v, %d lapses: %s", s.canalis.Instances(), s.canalis.Lapses(), &s.log.text)
			}
		}, jitter(0))
	})
	for interval, want := range map[time.Duration]time.Duration{2 * time.Second: 6 * time.Second, time.Hour: 31 * time.Second} {
		t.Run("all hang, every "+interval.String(), func(t *testing.T) {
			rehearse(t, func(s *stage) {
				s.canalis.Break(registrytest.Fault{Answer: registrytest.Hang})
				s.run()
				time.Sleep(want)
				synctest.Wait()
				if gaps := s.gaps(0); !slices.Equal(gaps, []time.Duration{want}) {
					s.Errorf("pinged after %v, want %v", gaps, want)
				}
			}, every(interval), jitter(0))
		})
	}
	t.Run("all take 12 s", func(t *testing.T) {
		play(t, func(s *stage) {
			s.canalis.Break(registrytest.Fault{Lands: true, Answer: registrytest.Late(12 * time.Second)})
			time.Sleep(time.Hour)
			synctest.Wait()
			if gaps := s.gaps(0); slices.Max(gaps) > 15*time.Second || !s.live() || s.canalis.Lapses() != 0 {
				s.Errorf("pinged after %v", gaps)
			}
			s.counted(registry.Active, "failed", 0)
			s.canalis.Break(registrytest.Fault{})
		})
	})
	t.Run("endless", func(t *testing.T) {
		play(t, func(s *stage) {
			s.canalis.Break(registrytest.Fault{Lands: true, Answer: registrytest.Flood})
			time.Sleep(time.Minute)
			synctest.Wait()
			s.counted(registry.Active, "ok", 5)
			s.canalis.Break(registrytest.Fault{})
		}, jitter(0))
	})
}

// A ping that hangs holds back the next state for half a second; one that is about to be answered is not cut, so
// that it does not come after the next one.
func TestDrainWhileAPingIsUnderWay(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		wait   time.Duration
	}{
		"hangs":    {registrytest.Hang, 500 * time.Millisecond},
		"too late": {registrytest.Late(7 * time.Second), 500 * time.Millisecond},
		"late":     {registrytest.Late(5300 * time.Millisecond), 300 * time.Millisecond},
		"fails": {func(w http.ResponseWriter, r *http.Request) {
			registrytest.Late(5100*time.Millisecond)(w, r)
			registrytest.Status(503)(w, r)
		}, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.canalis.Break(registrytest.Fault{Answer: tt.answer})
				time.Sleep(20 * time.Second)
				s.canalis.Break(registrytest.Fault{})
				s.reg.Drain()
				drained := time.Now()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				s.states(registry.Active, registry.Draining)
				if pings := s.canalis.Pings(); len(pings) != 3 || pings[2].At.Sub(drained) != tt.wait {
					s.Errorf("told %v after the drain, as ping %d", pings[len(pings)-1].At.Sub(drained), len(pings))
				}
				s.counted(registry.Active, "failed", 0)
			}, jitter(0))
		})
	}
}

// Whatever the control plane does, the node's end is bounded, and the last word is not repeated.
func TestStopIsBounded(t *testing.T) {
	for name, f := range failures() {
		t.Run(name, func(t *testing.T) { stopAt(t, f.answer, 0) })
	}
	t.Run("hang", func(t *testing.T) { stopAt(t, registrytest.Hang, time.Second) })
	t.Run("slow", func(t *testing.T) { stopAt(t, registrytest.Late(time.Minute), time.Second) })
}

func stopAt(t *testing.T, answer http.HandlerFunc, want time.Duration) {
	play(t, func(s *stage) {
		s.reg.Drain()
		synctest.Wait()
		s.canalis.Break(registrytest.Fault{Answer: answer})
		before := len(s.canalis.Pings())
		if took := s.stop(); took != want {
			s.Errorf("stopping took %v, want %v", took, want)
		}
		if n := len(s.canalis.Pings()) - before; n != 1 {
			s.Errorf("%d last words", n)
		}
		s.counted(registry.Offline, "failed", 1)
		if s.log.count("not withdrawn") != 1 {
			s.Errorf("log: %s", &s.log.text)
		}
	})
}

// A control plane that answers nothing is told all that there is to say, within the bound, however soon the end follows the
// drain.
func TestEveryStateIsToldToWhoHangs(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0:                      registry.DefaultWithdrawal,
		400 * time.Millisecond: registry.DefaultWithdrawal,
		time.Minute:            registry.DefaultWithdrawal,
	} {
		t.Run(after.String(), func(t *testing.T) {
			play(t, func(s *stage) {
				s.canalis.Break(registrytest.Fault{Lands: true, Answer: registrytest.Hang})
				time.Sleep(20 * time.Second)
				s.reg.Drain()
				time.Sleep(after)
				if took := s.stop(); took != want {
					s.Errorf("stopping took %v", took)
				}
				s.states(registry.Active, registry.Draining, registry.Offline)
			}, jitter(0))
		})
	}
}

// The end may come while a ping hangs.
func TestStopWhileAPingHangs(t *testing.T) {
	play(t, func(s *stage) {
		s.canalis.Break(registrytest.Fault{Answer: registrytest.Hang})
		time.Sleep(20 * time.Second)
		if took := s.stop(); took != 225*time.Millisecond {
			s.Errorf("stopping took %v", took)
		}
	}, func(c *registry.Config) { c.Withdrawal = 300 * time.Millisecond })
}

// The log does not tell what an answer or its redirect contain.
func TestLogTellsNoSecrets(t *testing.T) {
	play(t, func(s *stage) {
		s.canalis.Break(registrytest.Fault{Answer: registrytest.Redirect("http://10.0.0.9/?token=hunter2")})
		time.Sleep(time.Minute)
		s.stop()
		if text := s.log.text.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "s3cret") {
			s.Error(text)
		}
	}, func(c *registry.Config) { c.URL += "?token=s3cret" })
}
