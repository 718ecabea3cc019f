package registrytest

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault is what goes wrong with pings: the double answers them with Answer, and they count only if they
// land nevertheless.
type Fault struct {
	Lands  bool
	Answer http.HandlerFunc
}

// Break makes all pings from now on meet a fault; the zero Fault mends the double.
func (c *Canalis) Break(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Status answers with a status.
func Status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, http.StatusText(code), code) }
}

// Redirect answers that the registry is elsewhere.
func Redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Late answers 200 after a while.
func Late(d time.Duration) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
}

// Flood answers 200 with a body that does not end.
func Flood(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
			return
		}
	}
}

// The answers of Cut, of which each is the beginning of a good one.
const (
	CutAtOnce   = ""
	CutInHeader = "HTTP/1.1 200 OK\r\nContent-Le"
	CutInBody   = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nregist"
	CutInChunk  = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nregist"
)

// Cut writes some bytes and ends the connection.
func Cut(sent string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = buffered.WriteString(sent)
		_ = buffered.Flush()
		_ = conn.Close()
	}
}
