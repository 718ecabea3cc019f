package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
)

const mib = 1 << 20

// TestDK01_FullVolume fills a small volume: with jobs until the node refuses them, then with something
// else until nothing fits. Accepted work goes on all the while, also in a process that starts on the
// full volume, and new work is taken again as soon as there is room.
func TestDK01_FullVolume(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // much of it is waiting
			fillVolume(t, m)
		})
	}
}

func fillVolume(t *testing.T, m mode) {
	v := newVolume(t, 64*mib)
	v.fill(t, 32*mib) // so that fewer jobs will do
	w := newWorld(t)
	target := newPatient(t)
	l := newLives(t, v.dir, oneByOne, m.setting)
	c := l.client()
	l.begin()

	orders, refused := fillWithJobs(t, c, w, target)
	checkRefusal(t, refused)
	if refused.Fault.Limit == nil || refused.Fault.Limit.Reason != "db_size" {
		t.Errorf("refused without the limit: %v", refused)
	}
	if free := v.free(t); free < 8*mib {
		t.Errorf("refused with only %d bytes left", free)
	}
	worksOn(t, c, target, orders[:4])

	v.fill(t, 64*mib)
	worksOn(t, c, target, orders[4:28]) // so much that no write can have found its place reserved
	l.line("disk is full")
	checkRefusal(t, refusal(t, c, newOrder(w, "late", "full", "/fast", "/fast")))

	l.kill()
	v.fill(t, 64*mib)
	if free := v.free(t); free != 0 {
		t.Errorf("%d bytes are left", free)
	}
	l.begin()
	worksOn(t, c, target, orders[28:32])
	checkRefusal(t, refusal(t, c, newOrder(w, "late", "full after the start", "/fast", "/fast")))

	v.empty(t)
	takesAgain(t, c, newOrder(w, "late", "in time", "/fast", "/fast"))
	l.line("disk has room again")
	worksOn(t, c, target, orders[32:])
	l.stop()
}

// takesAgain submits a job until it is taken, and follows it to its end.
func takesAgain(t *testing.T, c *client.Client, o *order) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := o.place(ctx, c); err != nil {
		t.Fatalf("not taken although there is room: %v", err)
	}
	if err := o.watch(ctx, c); err != nil || !o.seen {
		t.Errorf("stream of the job that came when there was room: %v, its end: %v", err, o.seen)
	}
}

// fillWithJobs submits large jobs until one is refused, which must be after there are enough for the test.
func fillWithJobs(t *testing.T, c *client.Client, w *world, p *patient) ([]*order, *client.Error) {
	t.Helper()
	var orders []*order
	noise := rand.NewChaCha8([32]byte{}) // what can be compressed fills nothing
	for n := range 1000 {
		o := newOrder(w, "early", fmt.Sprint("k", n), "", "/fast")
		o.URL, o.Body = p.server.URL, make([]byte, 50<<10)
		_, _ = noise.Read(o.Body)
		r, err := c.Submit(t.Context(), o.Submission)
		var refused *client.Error
		if errors.As(err, &refused) && n >= 40 {
			return orders, refused
		}
		if err != nil {
			t.Fatal(err)
		}
		o.id = r.JobID
		orders = append(orders, o)
	}
	t.Fatal("nothing is refused")
	return nil, nil
}

// refusal submits a job that must be refused.
func refusal(t *testing.T, c *client.Client, o *order) *client.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.Submit(ctx, o.Submission)
	var refused *client.Error
	if !errors.As(err, &refused) {
		t.Fatalf("a full disk answers %+v, %v", r, err)
	}
	return refused
}

func checkRefusal(t *testing.T, e *client.Error) {
	t.Helper()
	if s := e.Status; s != http.StatusTooManyRequests && s != http.StatusServiceUnavailable && s != http.StatusInsufficientStorage {
		t.Errorf("refused with %v", e)
	}
	if e.Fault.RetryAfter <= 0 || e.Fault.Detail == "" {
		t.Errorf("refused without a reason or a time to come back: %v, %v", e, e.Fault.RetryAfter)
	}
}

// worksOn checks that jobs that have been accepted are shown, sent and delivered.
func worksOn(t *testing.T, c *client.Client, p *patient, orders []*order) {
	t.Helper()
	for range orders {
		p.answers <- struct{}{}
	}
	for _, o := range orders {
		done(t, c, o)
	}
}

// patient is a target that gives as many answers as it is told to, and lets the others wait.
type patient struct {
	server  *httptest.Server
	answers chan struct{}
}

func newPatient(t *testing.T) *patient {
	p := &patient{answers: make(chan struct{}, 1000)}
	answer := make([]byte, 60<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(answer)
	p.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-p.answers:
			_, _ = rw.Write(answer)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(p.server.Close)
	return p
}

// volume is a file system of its own.
type volume struct{ dir string }

// newVolume mounts one in memory.
func newVolume(t *testing.T, size int) *volume {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a volume")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Skipf("a volume cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("volume stays mounted: %v", err)
		}
	})
	return &volume{dir: dir}
}

// fill writes so many bytes that belong to nobody, or fewer if the volume is full then.
func (v *volume) fill(t *testing.T, size int) {
	t.Helper()
	f, err := os.OpenFile(v.filler(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(make([]byte, size))
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (v *volume) empty(t *testing.T) {
	t.Helper()
	if err := os.Remove(v.filler()); err != nil {
		t.Fatal(err)
	}
}

func (v *volume) filler() string { return filepath.Join(v.dir, "filler") }

func (v *volume) free(t *testing.T) int64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(v.dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}
