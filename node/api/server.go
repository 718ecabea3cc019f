package api

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/socket"
)

// Limits of the server on what clients may do with a connection.
const (
	// headerTimeout is absolute: it runs from the first moment that a request's headers are awaited.
	headerTimeout = 10 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 64 << 10 // bytes
)

// NewServer returns a server with the limits of the face. It has no timeouts for whole requests,
// since streams last for hours: the handlers bound the reading of bodies and each write.
// It speaks HTTP/1.1, and HTTP/2 with and without TLS.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	unused := &unused{conns: make(map[net.Conn]struct{})}
	srv := &http.Server{
		Handler:           h,
		ConnState:         unused.note,
		ConnContext:       socket.Attach,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	srv.RegisterOnShutdown(unused.close)
	return srv
}

// unused are the connections on which no request has come yet. http.Server.Shutdown waits five seconds
// for each, as it cannot know whether one is on its way; a client whose request comes this late finds
// the port closed anyway.
type unused struct {
	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]struct{}
	closed bool
}

// note is http.Server.ConnState.
func (u *unused) note(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case s != http.StateNew:
		delete(u.conns, c)
	case u.closed:
		_ = c.Close()
	default:
		u.conns[c] = struct{}{}
	}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.conns {
		_ = c.Close()
	}
}
