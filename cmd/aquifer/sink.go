package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// sinkCommand is something to call, and somebody to tell.
type sinkCommand struct {
	Listen string        `default:":9000" placeholder:"HOST:PORT" help:"Where to listen (default: ${default})."`
	Delay  time.Duration `placeholder:"TIME" help:"How long to wait before each answer, such as 200ms."`
}

// sinkGrace is how long requests may take that are open when the sink is told to stop.
const sinkGrace = 5 * time.Second

func (c *sinkCommand) Run(p *process) error {
	if c.Delay < 0 {
		return fail(exitUsage, "--delay must not be negative, got %v", c.Delay)
	}
	ctx, stop := untilSignal(context.Background(), signals{
		hangup: func() {}, first: func(os.Signal) {}, exit: p.exit,
	})
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fail(exitFailed, "--listen: %w", err)
	}
	_, _ = fmt.Fprintf(p.stderr, "listening on %s\n", l.Addr()) // nobody to tell
	server := &http.Server{Handler: &sink{out: p.stdout, delay: c.Delay}, ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sinkGrace)
		defer cancel()
		closed <- server.Shutdown(last)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// sink writes each request down before it answers it.
type sink struct {
	delay time.Duration

	mu  sync.Mutex // keeps lines whole
	out io.Writer
}

// arrival is a request as it is written down. What the request does not say is left out.
type arrival struct {
	At       int64  `json:"at"` // Unix ms
	Method   string `json:"method"`
	Path     string `json:"path"`
	Job      string `json:"job_id,omitzero"`
	Attempt  int    `json:"attempt,omitzero"`
	Node     string `json:"node,omitzero"`
	Delivery string `json:"delivery_id,omitzero"`
	Bytes    int64  `json:"body_bytes"`
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return // the sender is gone
	}
	attempt, _ := strconv.Atoi(r.Header.Get("X-Aqueduct-Attempt")) // only calls have one
	err = s.note(arrival{
		At: time.Now().UnixMilli(), Method: r.Method, Path: r.URL.RequestURI(), Attempt: attempt, Bytes: n,
		Job: r.Header.Get("X-Aqueduct-Job-Id"), Node: r.Header.Get("X-Aqueduct-Node-Id"), Delivery: r.Header.Get("X-Aqueduct-Delivery-Id"),
	})
	if err != nil {
		http.Error(w, "cannot write the request down", http.StatusInternalServerError)
		return
	}
	if !elapse(r.Context(), s.delay) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`+"\n") // a sender that is gone is nobody to tell
}

func (s *sink) note(a arrival) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return printJSON(s.out, a)
}

// elapse lets time pass, and reports whether it has.
func elapse(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (*sinkCommand) examples() string {
	return `Examples:
  aquifer sink
  aquifer job submit --url http://localhost:9000/call --webhook http://localhost:9000/hook --wait
  aquifer sink --listen :9001 --delay 2s

It answers everything with 200 and writes each request down before it answers, as a line of JSON on
standard output: when it came, with which method and path, and what the node says of its job, of the
attempt or the delivery, and of itself.
`
}
