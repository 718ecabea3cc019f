package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// probeEvery is how often members in doubt are asked whether they are there. Until a node knows, it and
// a node that never lost sight of the member may take different ones for an owner, and the first request
// for a member that is not there has to find out.
const probeEvery = time.Second

// Run asks the members in doubt whether they are ready, and ends with the context: those that are passed
// over, and those that have gone from the view without a word. A Forwarder works without; it then
// passes over the one kind for the whole PruneTTL, and finds out about the other kind with a request.
//
// It also looks whether the others believe this node, if its Owners heed that.
func (f *Forwarder) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	if f.Owners.standing.heeded {
		watch.Go(func() { f.watchStanding(ctx) })
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.probe(ctx)
		}
	}
}

func (f *Forwarder) probe(ctx context.Context) {
	out, gone := f.Owners.doubtful()
	var probes sync.WaitGroup
	for _, m := range out {
		probes.Go(func() {
			if f.ready(ctx, m) == nil {
				f.Owners.Heard(m.ID)
				f.Logger.InfoContext(ctx, "member is back", "member", m.ID)
			}
		})
	}
	for _, m := range gone {
		probes.Go(func() {
			switch err := f.ready(ctx, m); {
			case err == nil:
				f.Owners.Heard(m.ID)
			case errors.Is(err, errUnsent) && ctx.Err() == nil:
				f.prune(ctx, m, "", err)
			}
		})
	}
	probes.Wait()
}

// errNotReady is what a member says that takes no work now.
var errNotReady = errors.New("the member is not ready")

// ready asks a member whether it takes work.
func (f *Forwarder) ready(ctx context.Context, m Member) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Address+"/ready", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := f.send(req, m, Call{}, Hop{From: f.self()})
	if err != nil {
		return err
	}
	resp.discard()
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		return errNotReady
	default: // such as a proxy's, whose member is down
		return fmt.Errorf("status %d is none of a member", resp.StatusCode)
	}
}
