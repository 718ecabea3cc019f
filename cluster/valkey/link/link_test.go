package link_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

func TestMain(m *testing.M) { valkeytest.Main(m) }

// long is a timeout that a busy machine keeps, short one that a server that is stopped does not.
const (
	long  = 10 * time.Second
	short = 50 * time.Millisecond
)

func open(t *testing.T, timeout time.Duration, target link.Target) *link.Link {
	t.Helper()
	l, err := link.New(link.Config{Target: target, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func set(ctx context.Context, l *link.Link, key, value string) error {
	_, err := link.Do(ctx, l, func(ctx context.Context, c valkey.Client) (struct{}, error) {
		return struct{}{}, c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error()
	})
	return err
}

// down calls until the link no longer waits for Valkey.
func down(t *testing.T, l *link.Link) {
	t.Helper()
	valkeytest.Until(t, func() error {
		if err := set(t.Context(), l, "k", "v"); !errors.Is(err, link.ErrDown) {
			return errors.Join(errors.New("valkey does not count as down"), err)
		}
		return nil
	})
}

func TestNobodyListens(t *testing.T) {
	s := valkeytest.Start(t)
	s.Kill()
	l := open(t, long, link.Target{URL: s.URL()})
	for range 3 {
		if err := set(t.Context(), l, "k", "v"); err == nil || errors.Is(err, link.ErrDown) {
			t.Fatalf("got %v, want that nobody listens", err)
		}
	}
	down(t, l)
	s.Restart()
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
}

func TestKilledAndStartedAgain(t *testing.T) {
	s := valkeytest.Start(t)
	l := open(t, long, link.Target{URL: s.URL()})
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	down(t, l)
	s.Restart()
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "w") })
	if got := s.Get("k"); got != "w" {
		t.Errorf("got %q", got)
	}
}

// TestPaused: a server that takes connections and does not answer costs the caller the timeout, and after
// three times nothing.
func TestPaused(t *testing.T) {
	for name, connected := range map[string]bool{"before connecting": false, "when connected": true} {
		t.Run(name, func(t *testing.T) {
			s := valkeytest.Start(t)
			l := open(t, short, link.Target{URL: s.URL()})
			if connected {
				valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
			}
			s.Pause()
			if err := set(t.Context(), l, "k", "v"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want the timeout", err)
			}
			down(t, l)
			s.Resume()
			valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "w") })
		})
	}
}

// TestManyWait: more callers than fit into the pipeline of a connection are let go all the same.
func TestManyWait(t *testing.T) {
	s := valkeytest.Start(t)
	l := open(t, 500*time.Millisecond, link.Target{URL: s.URL()})
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
	s.Pause()
	var all sync.WaitGroup
	for range 3000 {
		all.Go(func() {
			if err := set(t.Context(), l, "k", "v"); err == nil {
				t.Error("a server that is stopped answers")
			}
		})
	}
	all.Wait()
	s.Resume()
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "w") })
}

// TestSlowServer: a timeout that is longer than Valkey is waited for otherwise counts all the same.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	var slept atomic.Bool
	s := valkeytest.NewStub(t, func([]string) string {
		if !slept.Swap(true) {
			<-time.After(2500 * time.Millisecond)
		}
		return valkeytest.OK
	})
	l := open(t, time.Minute, link.Target{URL: s.URL()})
	var all sync.WaitGroup
	for range 2 { // the second one waits behind the first
		all.Go(func() {
			if err := set(t.Context(), l, "k", "v"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestCallerGivesUp(t *testing.T) {
	s := valkeytest.Start(t)
	l := open(t, time.Hour, link.Target{URL: s.URL()})
	s.Pause()
	for range 5 { // which says nothing about Valkey
		ctx, cancel := context.WithTimeout(t.Context(), short)
		if err := set(ctx, l, "k", "v"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
		if err := set(ctx, l, "k", "v"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	s.Resume()
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Error(err)
	}
}

// TestAnswersAreNoFailures: a server that refuses one thing is there for another.
func TestAnswersAreNoFailures(t *testing.T) {
	s := valkeytest.Start(t)
	l := open(t, long, link.Target{URL: s.URL()})
	for range 5 {
		_, err := link.Do(t.Context(), l, func(ctx context.Context, c valkey.Client) (string, error) {
			return c.Do(ctx, c.B().Arbitrary("NOSUCHCOMMAND").Build()).ToString()
		})
		if _, answer := valkey.IsValkeyErr(err); !answer {
			t.Fatal(err)
		}
	}
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Error(err)
	}
}

func TestIllServersCountAsDown(t *testing.T) {
	for _, word := range []string{"LOADING", "READONLY", "MASTERDOWN"} {
		t.Run(word, func(t *testing.T) {
			var well atomic.Bool
			s := valkeytest.NewStub(t, func([]string) string {
				if well.Load() {
					return valkeytest.OK
				}
				return valkeytest.Error(word + " not now")
			})
			l := open(t, long, link.Target{URL: s.URL()})
			down(t, l)
			well.Store(true)
			valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
		})
	}
}

func TestFullServerIsNotDown(t *testing.T) {
	s := valkeytest.NewStub(t, func([]string) string { return valkeytest.Error("OOM command not allowed") })
	l := open(t, long, link.Target{URL: s.URL()})
	for range 5 {
		if err := set(t.Context(), l, "k", "v"); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
			t.Fatal(err)
		}
	}
}

func TestCutAnswers(t *testing.T) {
	var cut atomic.Bool
	cut.Store(true)
	s := valkeytest.NewStub(t, func([]string) string {
		if cut.Load() {
			return valkeytest.Cut
		}
		return valkeytest.OK
	})
	l := open(t, long, link.Target{URL: s.URL()})
	if err := set(t.Context(), l, "k", "v"); err == nil {
		t.Fatal("half an answer is one")
	}
	cut.Store(false)
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
}

func TestClosed(t *testing.T) {
	s := valkeytest.Start(t)
	l := open(t, long, link.Target{URL: s.URL()})
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	for range 5 {
		if err := set(t.Context(), l, "k", "v"); !errors.Is(err, link.ErrClosed) {
			t.Fatal(err)
		}
	}
}

// TestRefusalsAreLoggedOnce: an operator learns in Valkey's own words what is wrong, and does not drown in them.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	s := valkeytest.Start(t)
	s.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read")
	s.Do("ACL", "SETUSER", "default", "resetpass", ">secret")
	for words, url := range map[string]string{
		"NOAUTH": s.Addr, "WRONGPASS": ":guess@" + s.Addr, "DB index is out of range": ":secret@" + s.Addr + "/99", "NOPERM": "reader:secret@" + s.Addr,
	} {
		t.Run(words, func(t *testing.T) {
			var log syncBuffer
			l := logging(t, &log, "valkey://"+url)
			for range 5 {
				if err := set(t.Context(), l, "k", "v"); !link.Refuses(err) {
					t.Errorf("got %v, want a refusal", err)
				}
			}
			text := log.String()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, words) {
				t.Error(text)
			}
		})
	}
}

func logging(t *testing.T, log io.Writer, url string) *link.Link {
	t.Helper()
	l, err := link.New(link.Config{Target: link.Target{URL: url}, Timeout: long, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestDownAndBackAreLoggedOnce(t *testing.T) {
	var log syncBuffer
	s := valkeytest.Start(t)
	l := logging(t, &log, s.URL())
	s.Kill()
	down(t, l)
	down(t, l)
	s.Restart()
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
	text := log.String()
	if strings.Count(text, "does not answer") != 1 || strings.Count(text, "answers again") != 1 {
		t.Error(text)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
