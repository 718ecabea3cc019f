package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Targets shows targets and takes orders for them.
type Targets interface {
	// Targets returns what is known, by name, and behind it the hosts for which there is only an order.
	Targets() []Target
	// Target returns the targets of a host, in the form of job.HostOf, with their queues.
	Target(host string) []Target
	// Pause holds back the work of a host, or lets it go again.
	Pause(ctx context.Context, host string, paused bool) error
	// Limit puts the limits of an order for a host into effect, in place of those that were ordered before. Tenants that were
	// slowed down by their own failures start afresh.
	Limit(ctx context.Context, host string, limits store.Override) error
}

// Target is a target as it stands. Times are Unix ms.
type Target struct {
	Target        string      `json:"target,omitempty"` // scheme://host[:port]; absent where there is only an order yet
	Host          string      `json:"host"`
	State         string      `json:"state"` // running or paused
	RPS           Limit       `json:"rps"`
	MaxConcurrent Limit       `json:"max_concurrent"`
	Shared        *Shared     `json:"shared,omitempty"`        // by all nodes; nil: the limits of the file are this node's own
	SlowStart     bool        `json:"slow_start"`              // when it next starts from nothing
	AccountQueue  string      `json:"account_queue,omitempty"` // enabled or disabled, if the target has said so
	MaxBacklog    *int        `json:"max_backlog,omitempty"`   // that the target has asked for; 0: any
	Breaker       Breaker     `json:"breaker"`
	Ordered       *Ordered    `json:"ordered,omitempty"` // by an operator
	Backlog       int         `json:"backlog"`           // unfinished jobs
	InFlight      int         `json:"in_flight"`
	ActiveQueues  int         `json:"active_queues"`    // with unfinished jobs
	Queues        []QueueView `json:"queues,omitempty"` // those with most to do
}

// Limit is one bound of a target, and where it comes from.
type Limit struct {
	Effective  float64  `json:"effective"`
	Configured float64  `json:"configured"`        // ordered or from the file; of a shared one this node's part
	Source     string   `json:"source"`            // configured, slow start, or the header
	Learned    *float64 `json:"learned,omitempty"` // as the header said it; nil: none did
	Since      int64    `json:"since,omitempty"`   // when the header was last heard
	Stale      bool     `json:"stale,omitempty"`   // it has not been heard for so long that it climbs
}

// Shared is what all nodes of a cluster may have of a target together, as the file says.
type Shared struct {
	Nodes         int     `json:"nodes"` // that divide it in equal parts; 0: this one does not know them yet
	RPS           float64 `json:"rps"`
	MaxConcurrent int     `json:"max_concurrent"`
}

// Breaker is a target's breaker. What is queued does not wait for it.
type Breaker struct {
	State  string `json:"state"`            // closed or open
	Kind   string `json:"kind,omitempty"`   // of an open one, as is what follows: queue or reroute
	Reason string `json:"reason,omitempty"` // why it was last held open
	Since  int64  `json:"since,omitempty"`
	Until  int64  `json:"until,omitempty"`
}

// Ordered is an operator's order.
type Ordered struct {
	Paused        bool    `json:"paused,omitempty"`
	RPS           float64 `json:"rps,omitempty"`
	MaxConcurrent int     `json:"max_concurrent,omitempty"`
	Until         int64   `json:"until,omitempty"` // of the limits; absent: for ever
	At            int64   `json:"at"`
}

// QueueView is the queue of one tenant, or the one that tenants share.
type QueueView struct {
	Tenant     string  `json:"tenant"` // hash of the user and the API key; shared for the one that tenants share
	Backlog    int     `json:"backlog"`
	RPS        float64 `json:"rps,omitempty"`         // to which its own failures have slowed it down
	CoolsUntil int64   `json:"cools_until,omitempty"` // that its target has asked for
}

type targetList struct {
	Targets []Target `json:"targets"`
}

// targets lists targets.
func (f *face) targets(w http.ResponseWriter, _ *http.Request) int {
	all := f.Targets.Targets()
	if all == nil {
		all = []Target{}
	}
	return writeJSON(w, http.StatusOK, targetList{all})
}

// target shows one.
func (f *face) target(w http.ResponseWriter, r *http.Request) int {
	host, err := hostOf(r)
	if err != nil {
		return f.fail(w, r, err)
	}
	found := f.Targets.Target(host)
	if len(found) == 0 {
		return f.fail(w, r, fault.New(fault.NotFound, "no target has the host %q, or it had no work for long", host))
	}
	return writeJSON(w, http.StatusOK, targetList{found})
}

func hostOf(r *http.Request) (string, error) {
	host := r.PathValue("host")
	if !job.ValidHost(host) {
		return "", fault.New(fault.Invalid, "the target must be host or host:port as in the URL, got %q", host)
	}
	return job.HostOf(host), nil
}

// pause keeps work back from a target until it is resumed.
func (f *face) pause(w http.ResponseWriter, r *http.Request) int { return f.setPaused(w, r, true) }

// resume lets work go to a target again.
func (f *face) resume(w http.ResponseWriter, r *http.Request) int { return f.setPaused(w, r, false) }

func (f *face) setPaused(w http.ResponseWriter, r *http.Request, paused bool) int {
	return f.order(w, r, func(host string) error { return f.Targets.Pause(r.Context(), host, paused) })
}

// order gives an order and shows what is then in force.
func (f *face) order(w http.ResponseWriter, r *http.Request, give func(host string) error) int {
	host, err := hostOf(r)
	if err == nil {
		err = give(host)
	}
	if err != nil {
		return f.fail(w, r, err)
	}
	found := f.Targets.Target(host)
	if found == nil { // nothing is ordered any more, and no target is known
		found = []Target{}
	}
	return writeJSON(w, http.StatusOK, targetList{found})
}

// limits is the body of PUT /targets/{host}/limits. A field that is absent is not limited by it.
type limits struct {
	RPS           *float64 `json:"rps"`
	MaxConcurrent *int64   `json:"max_concurrent"`
	TTLSeconds    *int64   `json:"ttl_seconds"`
}

// minRate, maxRate and maxSlots bound what may be ordered as they do in the file; maxTTL is a year.
const (
	minRate  = 0.001
	maxRate  = 1_000_000_000
	maxSlots = 65_536
	maxTTL   = 365 * 24 * 60 * 60
)

// setLimits orders limits for a target.
func (f *face) setLimits(w http.ResponseWriter, r *http.Request) int {
	body := f.buffer()
	defer f.release(body)
	if err := f.readBody(w, r, body); err != nil {
		return f.fail(w, r, err)
	}
	l, err := parseLimits(*body)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return f.fail(w, r, err)
	}
	return f.order(w, r, func(host string) error { return f.Targets.Limit(r.Context(), host, l.order(time.Now())) })
}

// parseLimits reads an order to the letter: a name with a typing error would else take the order back that is in force.
func parseLimits(body []byte) (l limits, err error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(body, &fields); err != nil {
		return l, job.Unreadable(err, limitWanted)
	}
	if fields == nil {
		return l, fault.New(fault.Invalid, "invalid json: the body must be an object, got null")
	}
	known := []string{"rps", "max_concurrent", "ttl_seconds"}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case !slices.Contains(known, name):
			return l, fault.New(fault.Invalid, "a name must be one of %v, got %q", known, name)
		case fields[name].Kind() == jsontext.KindNull:
			return l, fault.New(fault.Invalid, "%s must be %s or absent, got null", name, limitWanted(name))
		}
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return l, job.Unreadable(err, limitWanted)
	}
	return l, nil
}

// limitWanted is what a limit that is ordered has to be.
func limitWanted(field string) string {
	if field == "rps" {
		return "a number"
	}
	return "an integer of 64 bits"
}

func (l limits) check() error {
	if l.RPS != nil && !(*l.RPS >= minRate && *l.RPS <= maxRate) {
		return fault.New(fault.Invalid, "rps must be from %v to %d, got %v", minRate, maxRate, *l.RPS)
	}
	if l.MaxConcurrent != nil && (*l.MaxConcurrent < 1 || *l.MaxConcurrent > maxSlots) {
		return fault.New(fault.Invalid, "max_concurrent must be from 1 to %d, got %d", maxSlots, *l.MaxConcurrent)
	}
	if l.TTLSeconds != nil && (*l.TTLSeconds < 1 || *l.TTLSeconds > maxTTL) {
		return fault.New(fault.Invalid, "ttl_seconds must be from 1 to %d, got %d", maxTTL, *l.TTLSeconds)
	}
	if l.TTLSeconds != nil && l.RPS == nil && l.MaxConcurrent == nil {
		return fault.New(fault.Invalid, "ttl_seconds is for rps and max_concurrent, and neither is there")
	}
	return nil
}

// order is the order of these limits.
func (l limits) order(now time.Time) (o store.Override) {
	if l.RPS != nil {
		o.RPS = *l.RPS
	}
	if l.MaxConcurrent != nil {
		o.MaxConcurrent = int(*l.MaxConcurrent)
	}
	if l.TTLSeconds != nil {
		o.LimitsUntil = now.Add(time.Duration(*l.TTLSeconds) * time.Second).UnixMilli()
	}
	return o
}
