package valkey

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

// Config is what a View is built from. The zero value of a duration is its default.
type Config struct {
	// Self is this node.
	Self cluster.Member
	// Link leads to the Valkey that all nodes of the region share. Its timeout bounds what a request may
	// wait for the owner of its tenant.
	Link *link.Link
	// Prefix begins the name of every key; empty means "aqueduct:", and a final ":" is added if it is
	// missing.
	Prefix string
	// HashTag has a Valkey Cluster keep all keys in one place, as the scripts need it; it becomes a part
	// of their names. Empty is right for every other Valkey.
	HashTag string
	// Heartbeat is the time between two signs of life; 5 s. Lower: a change is seen sooner, for more work
	// of Valkey.
	Heartbeat time.Duration
	// TTL is how long a node that gives no sign of life counts as alive, and how long this one relies on
	// what it knows without Valkey and without asking the others; 15 s, and never less than three heartbeats.
	TTL time.Duration
	// Idle is how long a tenant stays with its owner after its last request; 5 min.
	Idle time.Duration
	// Busy reports whether this node has unfinished work of a routing key, which then stays with it. It is
	// not asked for keys of more than 128 bytes. nil: a tenant is active only by its requests.
	Busy func(key string) bool
	// Work iterates over routing keys of which this node has unfinished work, also from before it started or from another
	// node. Those that Valkey takes for its own stay with it, though nobody has asked for them here. nil: there are none.
	Work func() iter.Seq[string]
	// Ask asks another member whether this node may go on without Valkey; nil: it may not. The context bounds the wait.
	Ask func(ctx context.Context, m cluster.Member) (cluster.Assent, error)
	// Load is how many tenants the node works for, also those that it had before it started; nil: those
	// that were seen.
	Load   func() int
	Logger *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

const (
	defaultPrefix    = "aqueduct:"
	defaultHeartbeat = 5 * time.Second
	defaultTTL       = 15 * time.Second
	defaultIdle      = 5 * time.Minute
)

// MinBeats is how many heartbeats fit at least into the life of one: one may be lost, and one late.
const MinBeats = 3

func (c Config) withDefaults() (Config, error) {
	address, err := cluster.ParseAddress(c.Self.Address)
	if err == nil {
		c.Self.Address = address
	}
	err = errors.Join(err, CheckHashTag(c.HashTag))
	if c.Heartbeat < 0 || c.TTL < 0 || c.Idle < 0 {
		err = errors.Join(err, errors.New("heartbeat, TTL and idle time must not be negative"))
	}
	orDefault(&c.Heartbeat, defaultHeartbeat)
	orDefault(&c.TTL, defaultTTL)
	orDefault(&c.Idle, defaultIdle)
	c.TTL = max(c.TTL, MinBeats*c.Heartbeat)
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if !strings.HasSuffix(c.Prefix, ":") {
		c.Prefix += ":"
	}
	if c.HashTag != "" {
		c.Prefix += "{" + c.HashTag + "}:"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(err, c.Self.Check())
}

// CheckHashTag says what is wrong with a hash tag; nil if nothing is.
func CheckHashTag(tag string) error {
	if strings.ContainsAny(tag, "{}") {
		return fmt.Errorf("the hash tag of Valkey keys must not contain { or }, got %q", tag)
	}
	return nil
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// assignmentTTL is how long an assignment lives that nobody renews.
func (c Config) assignmentTTL() time.Duration { return c.Idle + 2*c.Heartbeat }
