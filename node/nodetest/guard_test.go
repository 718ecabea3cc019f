package nodetest_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// No spelling of a metadata address is ever connected to, neither for a job nor for its delivery. The
// tenant sees at once why.
func TestSF01_BlockedAddresses(t *testing.T) {
	for _, host := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "2852039166", "0xA9FEA9FE",
		"0251.0376.0251.0376", "metadata.google.internal", "[fd00:ec2::254]", "169.254.170.2", "innocent.test",
	} {
		t.Run(host, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				trap := s.Add(nodetest.NewServer(s.Net.MachineAt("innocent.test", "169.254.169.254"), "80"))
				url := "http://" + host + "/latest/meta-data/"

				start := time.Now()
				j := s.settled(s.submit(to(url)))
				tells(t, j, "failed 0: blocked_target; delivered after 1")
				if ended := time.UnixMilli(j.Attempts[0].StartedAt); !ended.Equal(start) {
					t.Errorf("the job ended %v after it came", ended.Sub(start))
				}
				j = s.settled(s.submit(func(sub *client.Submission) { sub.WebhookURL = url }))
				tells(t, j, "completed 200: 200; failed after 1")
				if j.Webhook.LastError != job.BlockedTarget {
					t.Errorf("webhook %+v", j.Webhook)
				}
				if n := len(trap.Requests()); n != 0 {
					t.Errorf("the address got %d requests", n)
				}
			})
		})
	}
}

// Credentials in a URL are refused where the job comes in.
func TestSF01_CredentialsInURLs(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for name, edit := range map[string]func(*client.Submission){
			"url":         to("http://user:pw@target.test/"),
			"webhook_url": func(sub *client.Submission) { sub.WebhookURL = "http://user:pw@receiver.test/" },
		} {
			_, err := s.node.Client().Submit(t.Context(), s.submission(edit))
			var refused *client.Error
			if !errors.As(err, &refused) || refused.Status != 400 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A node that may only call public addresses does not call its neighbours, by whatever name, unless they
// are listed.
func TestSF03_PrivateAddressesInPublicMode(t *testing.T) {
	for _, addr := range []string{"10.1.2.3", "100.64.7.7", "192.168.0.9", "172.16.0.1", "127.0.0.1", "fdaa::3", "::1"} {
		ip := netip.MustParseAddr(addr)
		for _, allowed := range []string{"", netip.PrefixFrom(ip, ip.BitLen()).String(), "inside.test"} {
			t.Run(fmt.Sprint(addr, " allowed ", allowed), func(t *testing.T) {
				play(t, func(t *testing.T, s *stage) {
					inside := s.Add(nodetest.NewServer(s.Net.MachineAt("inside.test", addr), "80"))
					j := s.settled(s.submit(to(inside.URL("/"))))
					want, calls := "failed 0: blocked_target; delivered after 1", 0
					if allowed != "" {
						want, calls = "completed 200: 200; delivered after 1", 1
					}
					tells(t, j, want)
					if n := len(inside.Requests()); n != calls {
						t.Errorf("%d requests came through", n)
					}
				}, func(c *node.Config) { c.Egress, c.EgressAllow = "public", strings.Fields(allowed) })
			})
		}
	}
}

// By default a redirect is the result, wherever it points.
func TestHP04_RedirectIsTheResult(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, to := range []string{"/other", "http://other.test/", "http://169.254.169.254/", s.target.URL("/work")} {
				s.target.Reply(nodetest.Status(status).With("Location", to))
				tells(t, s.settled(s.submit()), fmt.Sprintf("completed %d: %d; delivered after 1", status, status))
			}
		}
		if n := len(s.target.Requests()); n != 20 {
			t.Errorf("the target saw %d requests", n)
		}
	}, takes(100, 1))
}

// A node that follows redirects sends the body again, takes no secret to another host, asks the guard at
// each hop, and ends a loop with the last redirect.
func TestHP04_RedirectsThatAreFollowed(t *testing.T) {
	secret := func(sub *client.Submission) {
		sub.Headers = map[string]string{"Authorization": "Bearer secret", "Cookie": "a=b", "X-Plain": "yes"}
	}
	for name, c := range map[string]struct {
		to    string
		want  string
		calls int // of the target
	}{
		"same host":  {"/other", "completed 200: 200; delivered after 1", 2},
		"other host": {"http://other.test/", "completed 200: 200; delivered after 1", 1},
		"metadata":   {"http://169.254.169.254/", "failed 0: blocked_target; delivered after 1", 1},
		"itself":     {"/work", "completed 307: 307; delivered after 1", 6},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				other := s.Target("other.test")
				s.target.Answer(func(r nodetest.Request) nodetest.Reply {
					if r.Path == "/other" {
						return nodetest.Text("there")
					}
					return nodetest.Status(307).With("Location", c.to)
				})
				tells(t, s.settled(s.submit(secret, retries(0))), c.want)
				calls := append(s.target.Requests(), other.Requests()...)
				if n := len(s.target.Requests()); n != c.calls {
					t.Errorf("the target saw %d requests", n)
				}
				for _, r := range calls {
					auth, cookie := r.Header.Get("Authorization"), r.Header.Get("Cookie")
					if kept := auth != "" && cookie != ""; string(r.Body) != "question" || r.Header.Get("X-Plain") != "yes" || kept != (r.Host == s.target.Address) {
						t.Errorf("%s %s got %q, Authorization %q, Cookie %q", r.Host, r.Path, r.Body, auth, cookie)
					}
				}
			}, func(c *node.Config) { c.FollowRedirects = 5 })
		})
	}
}
