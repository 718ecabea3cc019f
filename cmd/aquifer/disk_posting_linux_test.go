package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// TestDK01_PostingWhileTheVolumeFills submits jobs all the time, while something else fills the volume
// bit by bit, while the node is killed and starts on the full volume, and until there is room again. The
// first refusal comes before the volume is full, each has its reason, and what is acknowledged is done.
func TestDK01_PostingWhileTheVolumeFills(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // much of it is waiting
			postWhileFilling(t, m)
		})
	}
}

func postWhileFilling(t *testing.T, m mode) {
	v := newVolume(t, 64*mib)
	l := newLives(t, v.dir, oneByOne, m.setting)
	l.begin()
	p := &poster{t: t, client: l.client(), world: newWorld(t)}
	stop := p.start()

	p.takes(5)
	for refused := 0; refused == 0; _, refused = p.counts() {
		v.fill(t, mib)
		p.answers(5)
	}
	if free := v.free(t); free < 8*mib {
		t.Errorf("%d bytes were left when the first job was refused", free)
	}
	v.fill(t, 64*mib)
	p.refuses(5)
	p.lastIsDone()

	l.kill()
	v.fill(t, 64*mib)
	l.begin()
	p.refuses(5)
	p.lastIsDone()

	v.empty(t)
	p.takes(20)
	for _, o := range stop() {
		done(t, p.client, o)
	}
	l.stop()
}

// poster submits one job after the other, in a goroutine of its own.
type poster struct {
	t      *testing.T
	client *client.Client
	world  *world

	mu      sync.Mutex // guards what follows
	taken   []*order
	refused []*client.Error
}

// start begins. stop ends it, checks all refusals and returns the jobs that were taken.
func (p *poster) start() (stop func() []*order) {
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	p.t.Cleanup(running.Wait)
	p.t.Cleanup(cancel)
	return func() []*order {
		cancel()
		running.Wait()
		for _, e := range p.refused {
			checkRefusal(p.t, e)
		}
		return p.taken
	}
}

func (p *poster) run(ctx context.Context) {
	noise := rand.NewChaCha8([32]byte{}) // what can be compressed fills nothing
	for n := 0; ctx.Err() == nil; n++ {
		o := newOrder(p.world, "busy", fmt.Sprint("k", n), "/fast", "/fast")
		o.Body = make([]byte, 4<<10)
		_, _ = noise.Read(o.Body)
		p.post(ctx, o)
		// The readings of a node are up to 250 ms old: so much may be taken at a time when it is too much.
		_ = pause(ctx, 10*time.Millisecond)
	}
}

// post submits a job until it is taken or refused: a node that dies leaves it open which it was.
func (p *poster) post(ctx context.Context, o *order) {
	for ctx.Err() == nil {
		r, err := p.client.Submit(ctx, o.Submission)
		var refused *client.Error
		switch {
		case err == nil:
			o.id = r.JobID
			p.note(o, nil)
			return
		case errors.As(err, &refused):
			p.note(nil, refused)
			return
		}
	}
}

func (p *poster) note(taken *order, refused *client.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if taken != nil {
		p.taken = append(p.taken, taken)
	} else {
		p.refused = append(p.refused, refused)
	}
}

// counts returns how many jobs were taken, and how many refused.
func (p *poster) counts() (taken, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken), len(p.refused)
}

// takes waits until so many more jobs are taken.
func (p *poster) takes(n int) {
	p.t.Helper()
	taken, _ := p.counts()
	p.until("taken", func() bool { now, _ := p.counts(); return now >= taken+n })
}

// answers waits until so many more jobs are taken or refused.
func (p *poster) answers(n int) {
	p.t.Helper()
	taken, refused := p.counts()
	p.until("answered", func() bool {
		t, r := p.counts()
		return t+r >= taken+refused+n
	})
}

// refuses waits until so many more jobs are refused.
func (p *poster) refuses(n int) {
	p.t.Helper()
	_, refused := p.counts()
	p.until("refused", func() bool { _, now := p.counts(); return now >= refused+n })
}

func (p *poster) until(what string, ready func() bool) {
	p.t.Helper()
	eventually(p.t, patience, func() string {
		taken, refused := p.counts()
		return fmt.Sprintf("more jobs are %s (%d taken, %d refused)", what, taken, refused)
	}, ready)
}

// lastIsDone checks that the latest job that was taken is shown, sent and delivered.
func (p *poster) lastIsDone() {
	p.t.Helper()
	p.mu.Lock()
	last := p.taken[len(p.taken)-1]
	p.mu.Unlock()
	done(p.t, p.client, last)
}

// done waits until a job that was taken has ended, which must be well.
func done(t *testing.T, c *client.Client, o *order) {
	t.Helper()
	if j := o.settle(t, c, patience); j.Status != job.Completed || j.Webhook.State != job.WebhookDelivered {
		t.Errorf("%s is %s (%s), its webhook %s", o.IdempotentKey, j.Status, j.Reason, j.Webhook.State)
	}
}
