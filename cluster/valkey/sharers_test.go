package valkey_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// sharing is among how many members nodes divide what they share, in their own views.
type sharing struct {
	t  *testing.T
	of map[string]*cluster.Sharers

	mu   sync.Mutex // guards told
	told map[string][]int
}

// share has all nodes of a fleet count.
func (f *fleet) share() *sharing {
	f.t.Helper()
	s := &sharing{t: f.t, of: map[string]*cluster.Sharers{}, told: map[string][]int{}}
	ctx, stop := context.WithCancel(context.Background())
	var counting sync.WaitGroup
	for id, n := range f.nodes {
		of := cluster.NewSharers(cluster.SharersConfig{Owners: n.owners()})
		s.of[id], s.told[id] = of, []int{of.Known()}
		counting.Go(func() {
			_ = of.Run(ctx, func(n int) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.told[id] = append(s.told[id], n)
			})
		})
	}
	f.t.Cleanup(func() { stop(); counting.Wait() })
	return s
}

// always expects that nodes have never counted anything else.
func (s *sharing) always(n int, ids ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if told := s.told[id]; !slices.Equal(told, []int{n}) {
			s.t.Errorf("%s has counted %v, want %d", id, told, n)
		}
	}
}

// Whoever loses Valkey, all go on to divide by three: in each second all together take no more than the whole. Who leaves
// frees its part at once, though the others have not seen it drain; who is killed does not.
func TestPC11_SharersWhileValkeyIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, long, "a", "b", "c")
	s := f.share()
	f.cut(true, "a", "b", "c")
	f.settledFor(outage, "a", "b", "c")
	for _, n := range f.nodes {
		n.stale(true)
	}
	s.always(3, "a", "b", "c")

	f.cut(false, "a", "b", "c")
	for _, n := range f.nodes {
		n.stale(false)
		n.sees(3)
	}
	s.always(3, "a", "b", "c")

	f.cut(true, "c")
	f.nodes["c"].unsettled("")
	f.nodes["a"].sees(2)
	f.nodes["b"].sees(2)
	f.settledFor(short, "a", "b")
	s.always(3, "a", "b", "c")

	f.cut(false, "c")
	for _, n := range f.nodes {
		n.sees(3)
	}
	s.always(3, "a", "b", "c")

	f.nodes["c"].leave()
	valkeytest.Until(t, func() error {
		if n := s.of["a"].Known(); n != 2 {
			return fmt.Errorf("a divides by %d", n)
		}
		return nil
	})
	f.nodes["b"].kill()
	f.nodes["a"].sees(1)
	if n := s.of["a"].Known(); n != 2 {
		t.Errorf("who is killed frees its part at once: a divides by %d", n)
	}
}
