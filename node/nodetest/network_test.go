package nodetest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// line is one connection between two machines.
type line struct {
	net       *nodetest.Network
	a, b      *nodetest.Machine
	near, far net.Conn
	l         net.Listener
}

func connect(t *testing.T) *line {
	t.Helper()
	n := nodetest.NewNetwork()
	x := &line{net: n, a: n.Machine("a.test"), b: n.Machine("b.test")}
	var err error
	if x.l, err = x.b.Process().Listen(t.Context(), "tcp", ":80"); err != nil {
		t.Fatal(err)
	}
	if x.near, err = x.a.Process().Dial(t.Context(), "tcp", "b.test:80"); err != nil {
		t.Fatal(err)
	}
	if x.far, err = x.l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _, _ = x.near.Close(), x.far.Close(), x.l.Close()
		if open := n.Open(); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	})
	return x
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, len(want))
	if n, err := io.ReadFull(c, buf); err != nil || string(buf) != want {
		t.Fatalf("read %q, %v, want %q", buf[:n], err, want)
	}
}

// silent fails the test if something comes within a minute.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func ends(t *testing.T, c net.Conn, want error) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
		t.Fatalf("read: %v, want %v", err, want)
	}
}

func TestConnections(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *line){
		"bytes come in order": func(t *testing.T, x *line) {
			write(t, x.near, "to ")
			write(t, x.near, "be")
			read(t, x.far, "to be")
			write(t, x.far, "or")
			read(t, x.near, "or")
			if got := x.far.RemoteAddr().String(); got != x.near.LocalAddr().String() {
				t.Errorf("remote address %s, want %s", got, x.near.LocalAddr())
			}
		},
		"close ends after what was sent": func(t *testing.T, x *line) {
			write(t, x.near, "end")
			_ = x.near.Close()
			read(t, x.far, "end")
			ends(t, x.far, io.EOF)
			write(t, x.far, "anybody?")
			ends(t, x.far, syscall.ECONNRESET)
		},
		"close with something unread resets": func(t *testing.T, x *line) {
			write(t, x.far, "unread")
			_ = x.near.Close()
			ends(t, x.far, syscall.ECONNRESET)
		},
		"half a close": func(t *testing.T, x *line) {
			_ = x.near.(interface{ CloseWrite() error }).CloseWrite()
			ends(t, x.far, io.EOF)
			write(t, x.far, "still here")
			read(t, x.near, "still here")
			if _, err := x.near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write: %v", err)
			}
		},
		"a reader that does not read stops the writer": func(t *testing.T, x *line) {
			_ = x.near.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := x.near.Write(make([]byte, 1<<20))
			if n >= 1<<20 || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		},
		"closing frees a writer": func(t *testing.T, x *line) {
			time.AfterFunc(time.Second, func() { _ = x.near.Close() })
			if _, err := x.near.Write(make([]byte, 1<<20)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write: %v", err)
			}
		},
		"a cut link is silent and loses nothing": func(t *testing.T, x *line) {
			x.net.Cut(x.a, x.b)
			write(t, x.near, "late")
			_ = x.near.Close()
			silent(t, x.far)
			x.net.Heal(x.a, x.b)
			read(t, x.far, "late")
			ends(t, x.far, io.EOF)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, connect(t)) })
		})
	}
}

func TestDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := connect(t)
		dial := func(address string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := x.a.Process().Dial(ctx, "tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
		var dns *net.DNSError
		if err := dial("nobody.test:80"); !errors.As(err, &dns) {
			t.Errorf("unknown name: %v", err)
		}
		if err := dial("b.test:81"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed port: %v", err)
		}
		if err := dial("10.1.2.3:80"); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("unknown address: %v", err)
		}
		x.net.Cut(x.a, x.b)
		if err := dial("b.test:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut link: %v", err)
		}
		time.AfterFunc(time.Second/2, func() { x.net.Heal(x.b, x.a) })
		if err := dial("b.test:80"); err != nil {
			t.Errorf("healed link: %v", err)
		}
		there := x.net.MachineAt("", "10.1.2.3")
		x.net.Point("b.test", there)
		if err := dial("b.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("name that has moved: %v", err)
		}
	})
}

func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := connect(t)
		var seen []nodetest.Traffic
		x.net.Tap(func(tr nodetest.Traffic) { seen = append(seen, tr) })
		write(t, x.far, "answer")
		_, _ = x.a.Process().Dial(t.Context(), "tcp", "b.test:81")
		x.net.Tap(nil)
		write(t, x.far, "unseen")
		if len(seen) != 2 {
			t.Fatalf("seen %+v", seen)
		}
		if s := seen[0]; s.From != "b.test" || s.To != "a.test" || s.Port != 80 || string(s.Data) != "answer" || !s.Answer {
			t.Errorf("write is %+v", s)
		}
		if s := seen[1]; s.From != "a.test" || s.To != "b.test" || s.Port != 81 || s.Data != nil || s.Answer {
			t.Errorf("dial is %+v", s)
		}
		read(t, x.near, "answerunseen")
	})
}
