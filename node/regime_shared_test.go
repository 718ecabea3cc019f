package node

import (
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/logbook"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// What is shared is divided by the nodes that are known, also when the file is read again; what is not, and what is ordered,
// is the node's own.
func TestARegimeDividesWhatIsShared(t *testing.T) {
	log := &logbook.Book{}
	shared, own := Target{RPS: 30, MaxConcurrent: 2, Shared: true}, Target{RPS: 7, MaxConcurrent: 7}
	c := &Config{
		Targets:  Targets{Default: shared, Hosts: map[string]Target{"own.test": own}},
		Webhooks: Targets{Default: own, Hosts: map[string]Target{"shared.test": shared}},
	}
	r := newRegime(c, nil, log.Logger())
	is := func(host string, rps float64, slots int) {
		t.Helper()
		if s := r.targetSettings(host).Own(); s.RPS != rps || s.MaxConcurrent != slots {
			t.Errorf("%s has %v rps and %d slots, want %v and %d", host, s.RPS, s.MaxConcurrent, rps, slots)
		}
	}
	warned := func() int {
		return strings.Count(strings.Join(log.Lines(), "\n"), "max_concurrent is shared by more nodes")
	}

	is("any.test", 30, 2)
	r.divide(2)
	is("any.test", 15, 1)
	if warned() != 0 {
		t.Errorf("a warning of what is as it was set:\n%v", log)
	}
	r.divide(0) // not known
	is("any.test", 0.3, 1)
	if got := r.shared("any.test"); got == nil || got.Nodes != 0 || got.RPS != 30 || warned() != 0 {
		t.Errorf("shown as %+v", got)
	}
	r.divide(3)
	is("any.test", 10, 1)
	is("own.test", 7, 7)
	if got := r.shared("own.test"); got != nil {
		t.Errorf("what is not shared is shown as %+v", got)
	}
	if s := r.receiverSettings("shared.test").Own(); s.RPS != 10 || s.MaxConcurrent != 1 {
		t.Errorf("a receiver has %v rps and %d slots", s.RPS, s.MaxConcurrent)
	}
	if s := r.receiverSettings("any.test").Own(); s.RPS != 7 || s.MaxConcurrent != 7 {
		t.Errorf("another receiver has %v rps and %d slots", s.RPS, s.MaxConcurrent)
	}
	if lines := strings.Join(log.Lines(), "\n"); warned() != 1 || !strings.Contains(lines, "target any other") ||
		!strings.Contains(lines, "webhook receiver shared.test") || strings.Contains(lines, "own.test") {
		t.Errorf("the log has\n%s", lines)
	}

	shared.MaxConcurrent = 7
	r.reload(Targets{Default: shared}, Targets{Default: own})
	is("any.test", 10, 2)
	r.orders["any.test"] = store.Override{RPS: 25}
	is("any.test", 25, 2)
	r.orders["any.test"] = store.Override{MaxConcurrent: 5}
	is("any.test", 10, 5)
	r.reload(Targets{Default: own}, Targets{Default: own})
	is("other.test", 7, 7)
	if warned() != 1 {
		t.Errorf("the log has\n%v", log)
	}
	r.reload(Targets{Default: Target{RPS: 3, MaxConcurrent: 1, Shared: true}}, Targets{Default: own})
	is("other.test", 1, 1)
	if warned() != 2 {
		t.Errorf("no warning of what was read again:\n%v", log)
	}
}
