package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// sinks are the target and the webhook receiver. A job's key is in the address of both.
type sinks struct {
	ledger  *ledger
	servers []*http.Server
	errs    chan error
}

// busySuffix marks the keys of jobs at which the target is busy at first, so that they wait on their node.
const busySuffix = "-busy"

// busyFor is how long it asks them to wait, in s.
const busyFor = "3"

func newSinks(l *ledger, targetAddr, receiverAddr string) (*sinks, error) {
	s := &sinks{ledger: l, errs: make(chan error, 2)}
	for addr, handle := range map[string]http.HandlerFunc{targetAddr: s.target, receiverAddr: s.receive} {
		ln, err := listen(addr)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sinks: %w", err), s.close())
		}
		server := &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}
		s.servers = append(s.servers, server)
		go func() { s.errs <- server.Serve(ln) }()
	}
	return s, nil
}

func nodeOf(r *http.Request) place { return place(r.Header.Get("X-Aqueduct-Node-Id")) }

func (s *sinks) target(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a caller that is gone has called all the same
	key := r.URL.Query().Get("key")
	c := call{
		At: time.Now(), Node: nodeOf(r), Job: r.Header.Get("X-Aqueduct-Job-Id"), Attempt: r.Header.Get("X-Aqueduct-Attempt"),
	}
	c.Executed = !strings.HasSuffix(key, busySuffix) || c.Attempt != "1"
	s.ledger.called(key, c)
	h := w.Header()
	h.Set("X-Aqueduct-Rps", "100000")
	h.Set("X-Aqueduct-Max-Concurrent", "1024")
	if !c.Executed {
		h.Set("Retry-After", busyFor)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "done")
}

func (s *sinks) receive(w http.ResponseWriter, r *http.Request) {
	var told struct {
		Job    string `json:"job_id"`
		Status string `json:"status"`
	}
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil { // its sender died; it will come again
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.ledger.delivered(r.URL.Query().Get("key"), hook{
		At: time.Now(), Node: nodeOf(r), Delivery: r.Header.Get("X-Aqueduct-Delivery-Id"), Job: told.Job, Status: told.Status,
	})
}

func (s *sinks) close() error {
	var errs []error
	for _, server := range s.servers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if server.Shutdown(ctx) != nil { // calls that a fault holds
			errs = append(errs, server.Close())
		}
		cancel()
		if err := <-s.errs; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
