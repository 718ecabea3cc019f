package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/socket"
)

const (
	// writeTimeout is how long a client may take for a piece of an event, so that one that is frozen
	// does not hold a stream, and one that is slow still gets a large result.
	writeTimeout = 10 * time.Second
	pieceSize    = 64 << 10
	// unsent is how much of an answer the kernel may hold back for its client, in bytes. More, and a write waits for
	// the client to read half of that, which may be megabytes, whatever the size of the piece.
	unsent = 32 << 10
	// reconnectAfter is when a client should come back, in ms.
	reconnectAfter = "2000"
)

// writer sends a body to a client that may be slow, or frozen. One goroutine owns it.
type writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	conn  *socket.Socket
	wrote time.Time // the last time that something went out
	end   time.Time // when the whole has to be out; zero: no bound
}

func newWriter(w http.ResponseWriter, r *http.Request) writer {
	conn := socket.Of(r)
	conn.BoundUnsent(unsent)
	return writer{w: w, rc: http.NewResponseController(w), conn: conn}
}

// sse writes server-sent events. One goroutine owns it.
type sse struct{ writer }

// newSSE starts the answer; nothing is sent before open.
func newSSE(w http.ResponseWriter, r *http.Request) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // asks nginx to pass every event on at once
	if r.ProtoMajor == 1 {
		h.Set("Connection", "keep-alive")
	}
	return &sse{newWriter(w, r)}
}

// open sends the headers and the first bytes, which some proxies wait for.
func (s *sse) open() error { return s.send([]byte("retry: " + reconnectAfter + "\n\n")) }

// event sends one event. Its JSON has no line breaks, so one data line holds it whatever its size.
func (s *sse) event(e events.Event) error { return s.frame(e, "") }

// closing sends the last event of a stream that ends before its job.
func (s *sse) closing(e events.Event) error { return s.frame(e, "retry: "+reconnectAfter+"\n") }

func (s *sse) frame(e events.Event, extra string) error {
	head := make([]byte, 0, 128)
	head = strconv.AppendInt(append(head, "id: "...), int64(e.Seq), 10)
	head = append(append(append(head, "\nevent: "...), e.Name...), '\n')
	head = append(append(head, extra...), "data: "...)
	if err := s.write(head); err != nil {
		return err
	}
	for piece, err := range e.Pieces() {
		if err == nil {
			err = s.write(piece)
		}
		if err != nil {
			return err
		}
	}
	return s.send([]byte("\n\n"))
}

// comment breaks the silence.
func (s *sse) comment() error { return s.send([]byte(": keepalive\n\n")) }

// send writes and flushes. No deadline is left behind: over HTTP/2 an expired one would end the stream although
// nothing is being written.
func (s *writer) send(b []byte) error {
	if err := s.write(b); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	s.wrote = time.Now()
	s.deadline(time.Time{})
	return nil
}

// write writes in pieces that have a deadline each.
func (s *writer) write(b []byte) error {
	for piece := range slices.Chunk(b, pieceSize) {
		by := time.Now().Add(writeTimeout)
		if !s.end.IsZero() {
			by = earliest(by, s.end)
		}
		s.deadline(by)
		if _, err := s.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// taken reports whether the client has all that was sent, as far as its kernel and this node's can tell. It waits
// for it as long as for a piece.
func (s *writer) taken(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.conn.Taken(ctx)
}

// deadline bounds the next write. A writer without deadlines is one that cannot freeze.
func (s *writer) deadline(t time.Time) { _ = s.rc.SetWriteDeadline(t) }
