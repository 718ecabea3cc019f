package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// relayFile is the listener that the relay's process inherits.
const relayFile = 3

// relayDrain bounds how long the relay waits for requests that are still coming in when it ends.
const relayDrain = 5 * time.Second

// relayCmd is the yardstick: a process that makes the same three HTTP hops as a node, with nothing
// but net/http and encoding/json at their defaults. It stores nothing, paces nothing, repeats
// nothing: what a job costs here, no node built on net/http can undercut by much.
type relayCmd struct {
	Listen string `help:"host:port to listen on, instead of the inherited listener."`
}

// Run serves until ctx ends, and then lets the jobs it has finish.
func (c *relayCmd) Run(ctx context.Context, log *slog.Logger) error {
	ln, err := c.listener(ctx)
	if err != nil {
		return err
	}
	r := newRelay(log)
	server := &http.Server{Handler: r.routes()}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		// Handlers must have ended before their jobs can be waited for.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayDrain)
		defer cancel()
		return server.Shutdown(bounded)
	})
	group.Go(func() error {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	err = group.Wait()
	r.jobs.Wait()
	return err
}

func (c *relayCmd) listener(ctx context.Context) (net.Listener, error) {
	if c.Listen == "" {
		return inheritedListener(relayFile)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return ln, nil
}

// relayTimeout bounds a hop of the relay. Whoever calls strangers has to, and a node does so too.
const relayTimeout = 2 * time.Minute

type relay struct {
	out  *http.Client
	jobs sync.WaitGroup
	log  *slog.Logger
}

func newRelay(log *slog.Logger) *relay {
	// net/http's default keeps two idle connections per host; as many as there are jobs at a time
	// is the one setting without which it is no yardstick.
	pool := &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096}
	return &relay{log: log, out: &http.Client{Transport: pool, Timeout: relayTimeout, CheckRedirect: stay}}
}

// stay follows no redirect, as a node does not.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (r *relay) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", r.accept)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	return mux
}

type relayJob struct {
	UserID        string            `json:"user_id"`
	IdempotentKey string            `json:"idempotent_key"`
	URL           string            `json:"url"`
	Method        string            `json:"method"`
	Headers       map[string]string `json:"headers"`
	Body          string            `json:"body"`
	WebhookURL    string            `json:"webhook_url"`

	id string
}

func (r *relay) accept(w http.ResponseWriter, req *http.Request) {
	var j relayJob
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(body, &j)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	j.id = hex.EncodeToString(id[:])
	r.jobs.Go(func() {
		if err := r.run(&j); err != nil {
			r.log.Error("job was not relayed", "job", j.id, "err", err)
		}
	})
	writeJSON(w, http.StatusCreated, map[string]string{"job_id": j.id, "status": "queued"})
}

func (r *relay) run(j *relayJob) error {
	call, err := http.NewRequest(j.Method, j.URL, bytes.NewReader([]byte(j.Body)))
	if err != nil {
		return fmt.Errorf("call: %w", err)
	}
	for name, value := range j.Headers {
		call.Header.Set(name, value)
	}
	call.Header.Set("X-Aqueduct-Job-Id", j.id)
	status, body, err := r.exchange(call)
	if err != nil {
		return fmt.Errorf("call: %w", err)
	}
	result, err := json.Marshal(map[string]any{
		"body": string(body), "job_id": j.id, "response_status": status, "status": "completed",
	})
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	hook, err := http.NewRequest(http.MethodPost, j.WebhookURL, bytes.NewReader(result))
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	hook.Header.Set("Content-Type", "application/json")
	if _, _, err := r.exchange(hook); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

func (r *relay) exchange(req *http.Request) (int, []byte, error) {
	resp, err := r.out.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func writeJSON(w http.ResponseWriter, status int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A caller that is gone shows in the harness as a job refused.
	_ = json.NewEncoder(w).Encode(v)
}
