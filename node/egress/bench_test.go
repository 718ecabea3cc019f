package egress

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// asTarget is given to the other process of a benchmark.
var asTarget = flag.Bool("target", false, "answer the requests of a benchmark until the standard input ends")

// serveTarget is the other process: net/http's server with an answer of a few bytes.
func serveTarget() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, l.Addr()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
}

// target starts a target in a process of its own, so that its work does not count, and returns its URL.
func target(b *testing.B) string {
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-target")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address)
}

// jobRequest is what a node sends for a job.
func jobRequest(url string) Request {
	field := []string{"Authorization", "Bearer abc", "Content-Type", "application/json"}
	for _, prefix := range []string{"X-Aqueduct-", "X-Aquifer-"} {
		for _, name := range []string{
			"Total-Jobs", "Queue-Depth", "Flow-Rate", "Active-Queues", "Upstream-Backlog", "Node-Id", "Job-Id", "Attempt", "Idempotency-Key-Hash",
		} {
			field = append(field, prefix+name, "0123456789abcdef")
		}
	}
	field = append(field, "endpoint-load-metrics-format", "text", "User-Agent", "aquifer")
	return request(http.MethodPost, url+"/path", strings.Repeat("x", 256), field...)
}

// BenchmarkPaths sends the same requests over links, through the transport, and as bare bytes, which is
// the least that it can cost. It does so 64 at a time and by turns, so that a slower moment of the
// machine slows all. It counts the processor time of this process only.
func BenchmarkPaths(b *testing.B) {
	c := client(b, Config{})
	url := target(b)
	r := jobRequest(url)
	bare := newBareLink(b, strings.TrimPrefix(url, "http://"), r)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var link, transport, least cost
	rounds := 0
	for b.Loop() {
		link.add(b, func() (*http.Response, error) {
			r := r
			r.Deadline = time.Now().Add(time.Minute)
			return c.Do(ctx, r)
		})
		transport.add(b, func() (*http.Response, error) {
			r := r
			r.Deadline = time.Now().Add(time.Minute)
			return doThrough(ctx, c, r)
		})
		least.add(b, bare.exchange)
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	link.report(b, "link", rounds)
	transport.report(b, "transport", rounds)
	least.report(b, "bare", rounds)
	b.ReportMetric(float64(link.cpu)/float64(transport.cpu), "link/transport")
}

// bareLink writes the same bytes and reads what comes, without a look at it.
type bareLink struct {
	head  []byte
	conns chan net.Conn
}

func newBareLink(b *testing.B, address string, r Request) *bareLink {
	u, err := r.target()
	if err != nil {
		b.Fatal(err)
	}
	o := new(outgoings).get()
	if err := o.write(&r, u); err != nil {
		b.Fatal(err)
	}
	bare := &bareLink{head: append(o.bytes, r.Body...), conns: make(chan net.Conn, exchangesAtATime)}
	for range exchangesAtATime {
		c, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		bare.conns <- c
	}
	return bare
}

func (l *bareLink) exchange() (*http.Response, error) {
	c := <-l.conns
	defer func() { l.conns <- c }()
	if _, err := c.Write(l.head); err != nil {
		return nil, err
	}
	_, err := c.Read(make([]byte, 1<<10))
	return &http.Response{Body: http.NoBody}, err
}

// cost is what exchanges cost this process.
type cost struct {
	cpu, took time.Duration
	mallocs   uint64
}

const (
	exchangesPerRound = 1024
	exchangesAtATime  = 64
)

// add makes a round of exchanges.
func (c *cost) add(b *testing.B, exchange func() (*http.Response, error)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := processorTime(b), time.Now()
	var left atomic.Int64
	left.Store(exchangesPerRound)
	var running sync.WaitGroup
	for range exchangesAtATime {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := exchange()
				if err == nil {
					_, _, err = ReadBody(resp, 1<<20, nil)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	c.took += time.Since(start)
	c.cpu += processorTime(b) - cpu
	runtime.ReadMemStats(&after)
	c.mallocs += after.Mallocs - before.Mallocs
}

func (c *cost) report(b *testing.B, name string, rounds int) {
	n := float64(rounds * exchangesPerRound)
	b.ReportMetric(float64(c.cpu.Microseconds())/n, name+"-cpu-µs")
	b.ReportMetric(n/c.took.Seconds(), name+"/s")
	b.ReportMetric(float64(c.mallocs)/n, name+"-allocs")
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReadResponse compares how a usual answer is read with how net/http reads it.
func BenchmarkReadResponse(b *testing.B) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 18:34:08 GMT\r\nContent-Length: 11\r\n\r\n" + `{"ok":true}`
	for name, read := range map[string]func(*bufio.Reader, *http.Request) (*http.Response, error){
		"link": readResponse, "net/http": http.ReadResponse,
	} {
		b.Run(name, func(b *testing.B) {
			source := strings.NewReader("")
			in := bufio.NewReaderSize(source, readBufferBytes)
			b.ReportAllocs()
			for b.Loop() {
				source.Reset(answer)
				in.Reset(source)
				resp, err := read(in, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
