//go:build linux

package socket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// more is what no kernel takes for a client whose buffer is small, and less than the kernel of the node takes.
const more = 64 << 10

// exchange is one request: its client end, and what its handler has.
type exchange struct {
	client *net.TCPConn
	w      http.ResponseWriter
	r      *http.Request
}

// begin sends a request on a connection whose client has a small buffer. Its handler answers with the header, and
// lasts as long as the test.
func begin(t *testing.T) exchange {
	t.Helper()
	handling, release := make(chan exchange), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handling <- exchange{w: w, r: r}
		<-release
	}))
	srv.Config.ConnContext = socket.Attach
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := conn.(*net.TCPConn)
	if err := client.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	e := <-handling
	e.client = client
	return e
}

// send writes and flushes, and returns how much was taken until the time that it may last.
func (e exchange) send(t *testing.T, bytes int, limit time.Duration) (taken int) {
	t.Helper()
	rc := http.NewResponseController(e.w)
	if err := rc.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 4096); taken < bytes; taken += len(piece) {
		_, err := e.w.Write(piece)
		if err = errors.Join(err, rc.Flush()); errors.Is(err, os.ErrDeadlineExceeded) {
			return taken
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return taken
}

// within is the context of the request with a deadline that is short, for what will not come.
func (e exchange) within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(e.r.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

const (
	short = 50 * time.Millisecond
	long  = time.Minute
)

func TestUnreadBytesAreNotTaken(t *testing.T) {
	e := begin(t)
	if got := e.send(t, more, long); got != more {
		t.Fatalf("the kernel took %d bytes", got)
	}
	if socket.Of(e.r).Taken(e.within(t, short)) {
		t.Error("a client that reads nothing has taken all")
	}
}

func TestReadBytesAreTaken(t *testing.T) {
	e := begin(t)
	e.send(t, more, long)
	taken := make(chan bool)
	go func() { taken <- socket.Of(e.r).Taken(e.within(t, long)) }()
	if _, err := io.CopyN(io.Discard, e.client, more); err != nil {
		t.Error(err)
	}
	if !<-taken {
		t.Error("a client that reads all has not taken it")
	}
}

// A client that has what it wants closes, and may be gone before anybody looks.
func TestTakenByAClientThatHasLeft(t *testing.T) {
	e := begin(t)
	e.send(t, 4096, long)
	readChunk(t, e.client)
	_ = e.client.Close()
	<-e.r.Context().Done()
	if !socket.Of(e.r).Taken(e.r.Context()) {
		t.Error("a client that read all and closed has not taken it")
	}
}

// readChunk reads the head of an answer and its first chunk, which is zeros, to the end. Who closes with something unread
// breaks off.
func readChunk(t *testing.T, client io.Reader) {
	t.Helper()
	const end = "\x00\r\n"
	buf := make([]byte, 64<<10)
	for tail := ""; tail != end; {
		n, err := client.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		tail += string(buf[:n])
		tail = tail[max(0, len(tail)-len(end)):]
	}
}

func TestBrokenOffIsNotTaken(t *testing.T) {
	for name, bytes := range map[string]int{"bytes in the node": more, "bytes in the client's kernel": 1} {
		t.Run(name, func(t *testing.T) {
			e := begin(t)
			e.send(t, max(bytes, 4096), long)
			_ = e.client.Close() // with unread bytes
			<-e.r.Context().Done()
			if socket.Of(e.r).Taken(e.r.Context()) {
				t.Error("a client that broke off has taken all")
			}
		})
	}
}

func TestUnsentIsBounded(t *testing.T) {
	const all = 64 << 20 // more than any buffer
	free := begin(t).send(t, all, short)
	e := begin(t)
	socket.Of(e.r).BoundUnsent(16 << 10)
	if bounded := e.send(t, all, short); bounded > 64<<10 {
		t.Errorf("the kernel took %d bytes, and %d unbounded", bounded, free)
	}
}

func TestUnknownIsTakenWhileTheClientIsThere(t *testing.T) {
	var unknown *socket.Socket
	unknown.BoundUnsent(1)
	ctx, cancel := context.WithCancel(t.Context())
	if !unknown.Taken(ctx) {
		t.Error("not taken while the client is there")
	}
	cancel()
	if unknown.Taken(ctx) {
		t.Error("taken although the client is gone")
	}
}

// What a connection of HTTP/2 holds may belong to other answers.
func TestSharedConnectionIsUnknown(t *testing.T) {
	e := begin(t)
	e.send(t, more, long)
	e.r.ProtoMajor = 2
	if !socket.Of(e.r).Taken(e.r.Context()) {
		t.Error("an answer waits for those beside it")
	}
}
