package api

import (
	"log/slog"
	"net/http"
	"time"
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
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
