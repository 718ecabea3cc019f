//go:build linux

package api_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// follow opens the stream of job 1 over a real socket whose client has a small buffer, and returns once the node
// listens for it. HTTP/1.0 sends the events as they are, without chunks.
func follow(t *testing.T, f *fake) (*net.TCPConn, *http.Server) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := api.NewServer(f.handler(), slog.New(slog.DiscardHandler)), make(chan error)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := conn.(*net.TCPConn)
	if err := client.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "GET /jobs/"+idOf(1).String()+"/stream HTTP/1.0\r\nHost: node\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, client, "event: queued")
	return client, srv
}

// readUntil reads until word has come.
func readUntil(t *testing.T, r io.Reader, word string) {
	t.Helper()
	buf := make([]byte, 4096)
	for tail := ""; !strings.Contains(tail, word); {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%v before %q", err, word)
		}
		tail = tail[max(0, len(tail)-len(word)):] + string(buf[:n])
	}
}

// endWith ends job 1 with a body for its listeners, who have this long to confirm, and reports whether one did.
func endWith(f *fake, s job.Snapshot, body string, wait time.Duration) <-chan bool {
	f.put(ended(s, job.Result{Status: 200, Body: []byte(body)}))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	confirmed := make(chan bool, 1)
	go func() {
		defer cancel()
		confirmed <- f.hub.End(ctx, idOf(1), events.Terminal(ended(s, job.Result{Status: 200, Body: []byte(body)}), nil))
	}()
	return confirmed
}

// The node's own kernel takes all of such results for a client that reads nothing.
func TestWH08_WhatLiesInTheNodesKernelIsNotConfirmed(t *testing.T) {
	for name, size := range map[string]int{"60 kB": 60_000, "1 MB": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			s := f.put(queuedJob(1, 1))
			follow(t, f)
			if <-endWith(f, s, large[:size], 100*time.Millisecond) {
				t.Error("confirmed, although nobody has read it")
			}
		})
	}
}

// Browsers and scripts close once they have the end, without waiting for the end of the answer.
func TestWH08_ClientThatClosesWithTheEndConfirms(t *testing.T) {
	f := newFake()
	f.hub = events.New(events.Config{Wait: time.Minute})
	s := f.put(queuedJob(1, 1))
	client, _ := follow(t, f)
	confirmed := endWith(f, s, large[:60_000], time.Minute)
	readUntil(t, client, "200}\n\n")
	_ = client.Close()
	if !<-confirmed {
		t.Error("not confirmed, although the client has it")
	}
}

// A write waits until the client has read a good part of what the kernel holds back for it. So that a slow client
// gets a large result, that must be little.
func TestSL01_KernelHoldsBackLittle(t *testing.T) {
	f := newFake()
	s := f.put(queuedJob(1, 1))
	client, srv := follow(t, f)
	confirmed := endWith(f, s, large, 300*time.Millisecond)
	readUntil(t, client, "event: completed") // the rest is written meanwhile, and nobody reads it
	if <-confirmed {
		t.Error("confirmed, although nobody has read it")
	}
	if err := srv.Close(); err != nil { // the kernel still sends what it has
		t.Fatal(err)
	}
	if err := client.SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	const limit = 256 << 10
	if held, err := io.Copy(io.Discard, io.LimitReader(client, limit)); err != nil || held == limit {
		t.Errorf("the kernel held back %d bytes and more, %v", held, err)
	}
}
