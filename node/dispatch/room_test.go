package dispatch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// piped dials a server in memory that answers every request with a body of so many bytes.
func piped(size int, requests *atomic.Int64) egress.Config {
	return egress.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			for r := bufio.NewReader(far); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				requests.Add(1)
				if _, err := fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)); err != nil {
					return
				}
			}
		}()
		return addressed{near}, nil
	}}
}

// addressed is a connection in memory to an address that a guard can judge.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80} }

func ask(d *Dispatcher, ctx context.Context, timeout time.Duration) (Outcome, pace.Signal) { //nolint:revive // as Do
	return d.Do(ctx, Call{Method: http.MethodPost, URL: "http://10.0.0.1/", Timeout: timeout})
}

// A large answer waits until another one's turn is over, and is then read: its request is not repeated.
func TestLargeAnswersWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 << 20
		var requests atomic.Int64
		d := dispatcher(t, piped(size, &requests), 16<<20)
		room := NewRoom(2*size+2, nil)
		first := room.Lease(t.Context())
		if o, _ := ask(d, first, 0); len(o.Body) != size {
			t.Fatalf("first: %+v", o)
		}
		done := make(chan Outcome)
		go func() {
			second := room.Lease(context.Background())
			o, _ := ask(d, second, time.Minute)
			second.End()
			done <- o
		}()
		time.Sleep(30 * time.Second)
		if got := value(t, room.waiting); got != 1 {
			t.Errorf("%v are waiting", got)
		}
		first.End()
		if o := <-done; len(o.Body) != size || o.Took != 30*time.Second {
			t.Errorf("second: %d bytes after %v, %v", len(o.Body), o.Took, o.Err)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
		empty(t, room)
	})
}

// Small answers and those of a turn without a lease wait for nothing.
func TestAnswersThatNeedNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := NewRoom(2, nil)
		all := room.Lease(t.Context())
		if err := errors.Join(all.Take(all, 1), all.Take(all, egress.ModestBody+1)); err != nil {
			t.Fatal(err)
		}
		defer all.End()
		var requests atomic.Int64
		if o, _ := ask(dispatcher(t, piped(60_000, &requests), 0), room.Lease(t.Context()), time.Minute); len(o.Body) != 60_000 {
			t.Errorf("small: %+v", o)
		}
		for _, ctx := range []context.Context{t.Context(), NewRoom(0, nil).Lease(t.Context())} {
			if o, _ := ask(dispatcher(t, piped(200_000, &requests), 0), ctx, time.Minute); len(o.Body) != 200_000 {
				t.Errorf("without bounds: %+v", o)
			}
		}
	})
}

// The time limit of an attempt holds while its answer waits, and so does a stop; the target is not blamed.
func TestWaitForRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		d := dispatcher(t, piped(200_000, &requests), 0)
		room := NewRoom(2, nil)
		other := room.Lease(t.Context())
		if err := other.Take(other, 1); err != nil {
			t.Fatal(err)
		}
		o, s := ask(d, room.Lease(t.Context()), 5*time.Second)
		if o.Class != job.Timeout || !o.MaybeExecuted || o.Took != 5*time.Second || !o.Retryable() || s != (pace.Signal{}) {
			t.Errorf("timeout: %+v, %+v", o, s)
		}
		if want := "no memory free for the answer within 5s"; o.Reason() != want {
			t.Errorf("because %q, want %q", o.Reason(), want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stopped, stop := context.WithCancel(t.Context())
		context.AfterFunc(ctx, stop)
		if o, _ = ask(d, room.Lease(stopped), 0); !o.Canceled() || !o.MaybeExecuted || o.Took != time.Second {
			t.Errorf("stop: %+v", o)
		}
		other.End()
		empty(t, room)
	})
}

// Whatever turns do with a room, it is never overfull, each of them gets what it wants, and nothing is
// taken in the end.
func TestRoomUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := NewRoom(8<<20, prometheus.NewRegistry())
		var turns sync.WaitGroup
		for n := range 200 {
			turns.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				l := room.Lease(t.Context())
				defer l.End()
				for _, want := range []int64{r.Int64N(egress.ModestBody), egress.ModestBody, r.Int64N(16 << 20), 16 << 20} {
					if err := l.Take(l, want); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
					if taken := value(t, room.taken); taken > 8<<20 {
						t.Errorf("%v bytes are taken", taken)
					}
				}
				l.Keep(r.Int64N(1 << 20))
				time.Sleep(time.Second)
			})
		}
		turns.Wait()
		empty(t, room)
	})
}

func empty(t *testing.T, r *Room) {
	t.Helper()
	if taken, waiting := value(t, r.taken), value(t, r.waiting); taken != 0 || waiting != 0 {
		t.Errorf("%v bytes are taken, %v wait", taken, waiting)
	}
	if !r.modest.TryAcquire(r.modest.size) || !r.large.TryAcquire(r.large.size) {
		t.Error("the room is not free")
	}
}

func value(t *testing.T, g prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Error(err)
	}
	return m.GetGauge().GetValue()
}
