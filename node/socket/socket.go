// Package socket knows how much of an answer still lies in the node.
//
// A write to a connection returns when the kernel has a copy of the bytes, and the kernel of the node takes
// megabytes for a client that reads nothing. A server whose ConnContext is Attach can ask for the Socket of a
// request, bound what the kernel takes ahead of the client, and wait until the client's machine has
// acknowledged all of it.
//
// That the client's machine has the bytes does not say that the client has read them: what fits into the buffer
// of its own kernel is acknowledged for it. Behind a proxy the client is the proxy.
//
// Linux tells all that. Elsewhere, and on connections that are no TCP sockets, nothing is known, and nothing
// is bounded.
package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// The pauses between two looks at a socket: at first those of a near client, at last those of one that hangs.
const (
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond
)

// Socket is the connection on which a request came. The nil Socket is one of which nothing is known. It is
// safe for concurrent use.
type Socket struct {
	raw syscall.RawConn
	// shared: other answers go out on the connection too, so what it holds says nothing about one of them.
	shared bool
}

type contextKey struct{}

// Attach is http.Server.ConnContext: it notes the connection for Of.
func Attach(ctx context.Context, c net.Conn) context.Context {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return ctx
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, raw)
}

// Of returns the socket of a request; nil if its server has not noted one.
func Of(r *http.Request) *Socket {
	raw, ok := r.Context().Value(contextKey{}).(syscall.RawConn)
	if !ok {
		return nil
	}
	return &Socket{raw: raw, shared: r.ProtoMajor != 1}
}

// BoundUnsent has the kernel take no more than about this many bytes that it cannot send at once, for as long as
// the connection lives. A write then returns as the client reads, not as half a buffer of megabytes becomes free.
func (s *Socket) BoundUnsent(bytes int) {
	if s != nil {
		boundUnsent(s.raw, bytes)
	}
}

// Taken waits until the client's machine has acknowledged all that was written, and reports whether it has.
// ctx is that of the request, with a deadline: it ends with the client. A client that closes because it has all
// has taken it. Where nothing is known, all counts as taken unless ctx has ended.
func (s *Socket) Taken(ctx context.Context) bool {
	if s == nil || s.shared {
		return ctx.Err() == nil
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		over := ctx.Err() != nil // looked at first: what came before the end of ctx counts
		left, err := look(s.raw)
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
			return false
		case err != nil:
			return !over
		case left == 0 || over:
			return left == 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}
