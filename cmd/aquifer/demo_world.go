package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
)

// place is a server of the demo on a free local port: the target, or the receiver of the webhooks.
type place struct {
	server http.Server
	host   string
	served chan struct{} // closed when the server's goroutine has ended
}

// openPlace serves on a free port. Whoever is called is told by the last part of the path, the
// tenant's name.
func openPlace(ctx context.Context, called func(tenant string)) (*place, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{tenant}", func(_ http.ResponseWriter, r *http.Request) {
		called(r.PathValue("tenant"))
	})
	pl := &place{
		server: http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		host:   l.Addr().String(),
		served: make(chan struct{}),
	}
	go func() {
		defer close(pl.served)
		_ = pl.server.Serve(l) // ends when close is called; the demo notices calls that are missing
	}()
	return pl, nil
}

// url is where the place is called for a tenant.
func (pl *place) url(tenant string) string { return "http://" + pl.host + "/" + tenant }

func (pl *place) close() {
	_ = pl.server.Close()
	<-pl.served
}

// demoSettings returns the settings of the demo's node, as an operator would write them. Nothing of
// the user's own environment goes in.
func demoSettings(dir, targetHost string, rps int) (node.Config, error) {
	pace := filepath.Join(dir, "targets.yaml")
	text := fmt.Sprintf("upstreams:\n  %q: {rps: %d, max_concurrent: 2}\nwebhooks: {rps: 100, max_concurrent: 8}\n", targetHost, rps)
	if err := os.WriteFile(pace, []byte(text), 0o600); err != nil {
		return node.Config{}, err
	}
	cfg, _, err := node.FromEnv([]string{
		"AQUIFER_LISTEN=127.0.0.1:0",
		"AQUIFER_SHUTDOWN_QUIESCE_MS=0",
		"AQUIFER_SHUTDOWN_TIMEOUT_SECONDS=2",
		"CONFIG_PATH=" + pace,
		"DB_PATH=" + filepath.Join(dir, "store"),
	}, "demo")
	return cfg, err
}

// running is a node at work in this process.
type running struct {
	server string // its address, with the scheme
	cancel context.CancelFunc
	done   chan struct{} // closed when the node has stopped
	err    error         // how it stopped; set before done is closed
}

// startNode starts a node and waits until it serves.
func startNode(ctx context.Context, cfg node.Config) (*running, error) {
	n, err := node.New(cfg, node.Deps{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = n.Run(ctx)
	}()
	select {
	case <-n.Ready():
		r.server = "http://" + n.Addr().String()
		return r, nil
	case <-r.done:
		cancel()
		return nil, fmt.Errorf("the node did not start: %w", errors.Join(r.err, context.Cause(ctx)))
	}
}

// stop ends the node and waits for it.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// burst is what the tenants send to a node.
type burst struct {
	board            *board
	target, receiver *place
}

// send gives the node all jobs of all tenants, each tenant's as fast as it takes them.
func (b burst) send(ctx context.Context, server string) error {
	transport := &http.Transport{MaxIdleConnsPerHost: len(b.board.scene().tenants)}
	defer transport.CloseIdleConnections()
	node, err := client.New(server, transport)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range b.board.scene().tenants {
		g.Go(func() error { return b.sendFor(ctx, node, t) })
	}
	return g.Wait()
}

// sendFor sends the jobs of one tenant.
func (b burst) sendFor(ctx context.Context, node *client.Client, t tally) error {
	for i := range t.burst {
		_, err := node.Submit(ctx, client.Submission{
			UserID: t.name, IdempotentKey: fmt.Sprintf("job-%d", i+1), Method: http.MethodPost,
			URL: b.target.url(t.name), WebhookURL: b.receiver.url(t.name),
		})
		if err != nil {
			return err
		}
		b.board.accepted(t.name)
	}
	return nil
}
