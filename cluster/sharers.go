package cluster

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Sharers tells among how many members something is divided that they may use together, so that what all take is never
// much more than the whole, whatever becomes of their views.
//
// A member counts as long as it may be at work. One that has left counts no more; one that went without a word may only be
// cut off, and counts on for a while. When half of the members go together without a word, or more, the node may be on the smaller
// side of a cut, so it counts them for as long as it remembers them. While a view is not to be relied on the number does not get smaller. A node that is new
// has no number until the others have had time to count it.
type Sharers struct {
	SharersConfig
	known atomic.Int64
	since time.Time // since when the view is settled of a node that has no number yet; of Run alone
}

// SharersConfig is what Sharers are built from.
type SharersConfig struct {
	// Owners is required.
	Owners *Owners
	// Learning is how long the others may take to learn of a node that is new.
	Learning time.Duration
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

const (
	// silentFor is how long a member counts that went without a word, unless half of all or more went together.
	silentFor = 10 * time.Minute
	// together is how long it takes at most until all members are missed that are cut off at one time.
	together = time.Minute
	// recount is how often it is looked whether such a time is over. Changes of the view are seen at once.
	recount = time.Second
)

// NewSharers returns the sharers of a view.
func NewSharers(c SharersConfig) *Sharers {
	s := &Sharers{SharersConfig: c}
	promauto.With(c.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_cluster_sharers",
		Help: "Nodes that divide what they share, such as the limits of a target; 0 while the node does not know them.",
	}, func() float64 { return float64(s.Known()) })
	s.count(time.Now())
	return s
}

// Known is how many there are; 0 while the node does not know.
func (s *Sharers) Known() int { return int(s.known.Load()) }

// Run counts until ctx ends, and calls changed with each new number. The error is nil.
func (s *Sharers) Run(ctx context.Context, changed func(n int)) error {
	tick := time.NewTicker(recount)
	defer tick.Stop()
	for {
		news := s.Owners.fields.view.Changes()
		if s.count(time.Now()) {
			changed(s.Known())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-tick.C:
		}
	}
}

// count counts anew, and reports whether the number has changed.
func (s *Sharers) count(now time.Time) (changed bool) {
	f := s.Owners.fields.now()
	n, before := f.sharers(now), s.Known()
	sure := f.roster.Unsettled == nil && s.Owners.fields.view.Roster().Stale.IsZero()
	switch {
	case before > 0 && !sure:
		n = max(n, before)
	case before == 0 && !sure:
		s.since, n = time.Time{}, 0
	case before == 0:
		if s.since.IsZero() {
			s.since = now
		}
		if now.Sub(s.since) < s.Learning {
			n = 0
		}
	}
	s.known.Store(int64(n))
	return n != before
}

// sharers is how many members may be at work.
func (f *field) sharers(now time.Time) int {
	there := 0
	for _, m := range f.members {
		if m.State != Offline {
			there++
		}
	}
	n := there
	for silent := f.silent(now); len(silent) > 0; {
		lost := 1
		for lost < len(silent) && silent[lost].at.Sub(silent[0].at) < together {
			lost++
		}
		cut := lost >= max(silent[lost-1].stayed, there)
		for _, d := range silent[:lost] {
			if cut || now.Sub(d.at) < silentFor {
				n++
			}
		}
		silent = silent[lost:]
	}
	return n
}

// silent are those that are gone without a word, in the order in which they went.
func (f *field) silent(now time.Time) []departed {
	return slices.DeleteFunc(slices.Clone(f.gone), func(d departed) bool {
		return d.member.State != Active || now.Sub(d.at) >= rememberedFor
	})
}
