package main

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// entrance is where clients reach a node.
type entrance struct {
	node place
	url  string
}

// balancer gives calls to the nodes that say they are ready, in turn, as a load balancer before a fleet does.
type balancer struct {
	http *http.Client

	// mu guards all below.
	mu    sync.Mutex
	all   []entrance
	ready map[place]bool
	next  int
}

// Pace and patience of the checks; a balancer on a platform asks less often.
const (
	checkEvery   = 200 * time.Millisecond
	checkTimeout = time.Second
)

func newBalancer(c *http.Client) *balancer {
	return &balancer{http: c, ready: make(map[place]bool)}
}

func (b *balancer) add(e entrance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, e)
}

// pick returns the next node that is ready, or the next one if none is.
func (b *balancer) pick() entrance {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.all {
		b.next++
		if e := b.all[b.next%len(b.all)]; b.ready[e.node] {
			return e
		}
	}
	b.next++
	return b.all[b.next%len(b.all)]
}

// run checks the nodes until ctx ends.
func (b *balancer) run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var checks sync.WaitGroup
	defer checks.Wait()
	for {
		b.mu.Lock()
		all := b.all
		b.mu.Unlock()
		for _, e := range all {
			checks.Go(func() { b.check(ctx, e) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *balancer) check(ctx context.Context, e entrance) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	ok := answers(ctx, b.http, e.url+"/ready")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready[e.node] = ok
}

// answers reports whether a GET is answered with 200.
func answers(ctx context.Context, c *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
