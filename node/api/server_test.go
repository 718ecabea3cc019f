package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/api"
)

// A stop does not wait for connections that were opened and never used, and does wait for a request.
func TestShutdownClosesUnusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, release := newNetwork(), make(chan struct{})
		srv := api.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.WriteHeader(http.StatusAccepted)
		}), slog.New(slog.DiscardHandler))
		served := make(chan error)
		go func() { served <- srv.Serve(n) }()

		unused, busy := connect(t, n), connect(t, n)
		if _, err := io.WriteString(busy, "GET / HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start, stopped := time.Now(), make(chan error, 1)
		go func() { stopped <- srv.Shutdown(context.Background()) }()
		if _, err := unused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the unused connection: %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the unused connection was closed after %v", waited)
		}
		close(release)
		resp, err := http.ReadResponse(bufio.NewReader(busy), nil)
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("the request: %v, %v", resp, err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took >= time.Second {
			t.Errorf("the stop took %v", took)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func connect(t *testing.T, n *network) net.Conn {
	t.Helper()
	c, err := n.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
