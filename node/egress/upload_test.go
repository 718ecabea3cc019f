package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const largeBody = 8 << 20 // more than the buffers between two processes hold

// TestEarlyAnswer has targets that answer before they have read the request. Their answer is what counts.
func TestEarlyAnswer(t *testing.T) {
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
	for name, handle := range map[string]func(c *connection, end <-chan struct{}){
		"and reads no more": func(c *connection, end <-chan struct{}) {
			c.say(answer)
			<-end
		},
		"and says no more": func(c *connection, end <-chan struct{}) {
			c.say(answer)
			if tcp, ok := c.under().(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			<-end
		},
		"and reads the rest": func(c *connection, _ <-chan struct{}) {
			c.say(answer)
			_, _ = io.Copy(io.Discard, c.r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachPath(t, func(t *testing.T, p path) {
				for _, size := range []int{smallRequest / 2, smallRequest, largeBody} {
					end := make(chan struct{})
					url := p.serve(t, func(c *connection) {
						if c.head() != "" {
							handle(c, end)
						}
					})
					c := p.to(t, Config{})
					status, body, err := fetch(t.Context(), c, request("POST", url, strings.Repeat("x", size)))
					if status != 413 || body != "no!" {
						t.Errorf("%d bytes: %d %q, %v", size, status, body, err)
					}
					close(end)
				}
			})
		})
	}
}

// A connection whose request is only half written is not used again.
func TestHalfWrittenRequestIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		const whole = 2 // the connection whose requests are read
		c, err := New(Config{Dial: pipes(func(c *connection) {
			for c.n != whole && c.head() != "" {
				c.say(okAnswer)
				<-end
			}
			for req, _ := c.next(); req != nil; req, _ = c.next() {
				c.say(okAnswer)
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer close(end)
		for open := range 2 {
			for kept, to := range []string{"http://early.test/", "http://whole.test/"} {
				if _, body, err := fetch(t.Context(), c, request("POST", to, strings.Repeat("x", largeBody))); body != "ok" {
					t.Fatalf("%q, %v", body, err)
				}
				if n := metricValue(t, c.dialer.metrics.connections); n != float64(max(open, kept)) {
					t.Fatalf("%v connections are open after a request to %s, want those whose requests were written", n, to)
				}
			}
		}
		if n := metricValue(t, c.dialer.metrics.dials.WithLabelValues(dialOK)); n != 3 {
			t.Errorf("%v connections for two requests half written and two whole ones", n)
		}
	})
}

// An answer that was sent before the target closed its end of the upload is read.
func TestAnswerBeforeReset(t *testing.T) {
	for _, size := range []int{1000, largeBody} {
		url := rawServer(t, func(c *connection) {
			if c.head() != "" {
				c.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
				c.reset()
			}
		})
		c := client(t, Config{})
		status, body, err := fetch(t.Context(), c, request("POST", url, strings.Repeat("x", size)))
		// The reset may overtake the answer.
		if e := (*Error)(nil); errors.As(err, &e) && (e.Cause != Reset || !e.Sent) || err == nil && (status != 401 || body != "no") {
			t.Errorf("%d bytes: %d %q, %v", size, status, body, err)
		}
	}
}

// A large request is written by a goroutine, and its connection is kept.
func TestLargeRequestWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read []int
		c, err := New(Config{Dial: pipes(func(c *connection) {
			for {
				time.Sleep(time.Minute)
				req, body := c.next()
				if req == nil {
					return
				}
				read = append(read, len(body))
				c.say(okAnswer)
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { c.Close(); time.Sleep(time.Minute) }()
		for range 3 {
			if _, got, err := fetch(t.Context(), c, request("POST", "http://pipe.test/", strings.Repeat("x", 1<<20))); got != "ok" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if len(read) != 3 || read[2] != 1<<20 {
			t.Errorf("the target read %v", read)
		}
		if n := metricValue(t, c.dialer.metrics.dials.WithLabelValues(dialOK)); n != 1 {
			t.Errorf("%v connections for requests one after the other", n)
		}
	})
}

// TestUploadEnds ends an exchange while its request is being written: nothing of it stays.
func TestUploadEnds(t *testing.T) {
	for name, want := range map[string]Cause{"deadline": Timeout, "context": Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan struct{})
				c, err := New(Config{Dial: pipes(func(c *connection) {
					_ = c.head()
					<-gone
				})})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				defer close(gone)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := request("POST", "http://pipe.test/", strings.Repeat("x", 1<<20))
				if want == Timeout {
					r.Deadline = time.Now().Add(time.Minute)
				} else {
					time.AfterFunc(time.Minute, cancel)
				}
				start := time.Now()
				_, err = c.Do(ctx, r)
				if e := failure(t, err); e.Cause != want || !e.Sent || time.Since(start) != time.Minute {
					t.Errorf("cause %v, sent %v after %v: %v", e.Cause, e.Sent, time.Since(start), e)
				}
				if n := metricValue(t, c.dialer.metrics.connections); n != 0 {
					t.Errorf("%v connections stay", n)
				}
			})
		})
	}
}

// TestManyAtOnce mixes targets that behave and misbehave. Whatever happens, each request gets its own
// answer or an error.
func TestManyAtOnce(t *testing.T) {
	eachPath(t, func(t *testing.T, p path) {
		unasked := ""
		if p.server == nil { // the transport may be too late to notice
			unasked = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
		}
		url := p.serve(t, func(c *connection) {
			for req, body := c.next(); req != nil; req, body = c.next() {
				switch len(body) % 5 {
				case 0:
					return
				case 1:
					c.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
					return
				case 2:
					c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n" + body[:1] + "\r\n0\r\n\r\n" + unasked)
				case 3:
					c.reset()
				default:
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + body[:1])
				}
			}
		})
		c := p.to(t, Config{})
		var running sync.WaitGroup
		for id := range byte(8) {
			running.Go(func() {
				for n := range 25 {
					mine := strings.Repeat(string('a'+rune(id)), 1+(n*7919)%50)
					resp, err := c.Do(t.Context(), request(http.MethodPost, url, mine))
					if err != nil {
						_ = failure(t, err)
						continue
					}
					body, _, err := ReadBody(resp, -1, nil)
					if got := string(body); err == nil && got != mine && got != mine[:1] {
						t.Errorf("%q was answered by %q", mine, got)
					}
				}
			})
		}
		running.Wait()
	})
}
