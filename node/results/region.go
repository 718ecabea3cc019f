package results

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Config is what a Region is built from. The zero value of a number or a prefix is its default, but for MaxBytes.
type Config struct {
	// Target is the Valkey that the nodes of the region share.
	Target link.Target
	// Node is the tag that the ids of this node's jobs have.
	Node job.NodeTag
	// Timeout is how long a caller who hands in a job or reads a result may have to wait for Valkey at most; 25 ms.
	Timeout time.Duration
	// TTL is how long an ended job's key and result are kept; 2 h. A job that has not ended keeps its key.
	TTL time.Duration
	// Claims makes a key one job in the whole region.
	Claims bool
	// Prefix begins the names of the keys; empty means "aqueduct:idempotency:".
	Prefix string
	// Results keeps what jobs answered, too.
	Results bool
	// ResultPrefix begins the names of the results; empty means "aqueduct:result:".
	ResultPrefix string
	// MaxBytes is how much of an answer's body is kept; 0 keeps none.
	MaxBytes int
	Logger   *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

const (
	defaultTimeout      = 25 * time.Millisecond
	defaultTTL          = 2 * time.Hour
	defaultPrefix       = "aqueduct:idempotency:"
	defaultResultPrefix = "aqueduct:result:"
	// recordTimeout bounds one batch of the writer, for whom nobody waits.
	recordTimeout = 2 * time.Second
)

// Region is what is remembered. It is safe for concurrent use.
type Region struct {
	cfg Config
	// asking is for calls that somebody waits for, recording for all others: large results are not to
	// stand in the way of a small question.
	asking, recording *link.Link
	abandon           *valkey.Lua
	waiting           *backlog
	owing             atomic.Bool // something was dropped that Lost has not told of
	mark              mark
	metrics           *metrics
}

// New returns a region that is not connected yet. The error says what is wrong with the target.
func New(c Config) (*Region, error) {
	orDefault(&c.Timeout, defaultTimeout)
	orDefault(&c.TTL, defaultTTL)
	orDefault(&c.Prefix, defaultPrefix)
	orDefault(&c.ResultPrefix, defaultResultPrefix)
	orDefault(&c.Logger, slog.New(slog.DiscardHandler))
	asking, err1 := link.New(link.Config{Target: c.Target, Timeout: c.Timeout, Logger: c.Logger})
	recording, err2 := link.New(link.Config{Target: c.Target, Timeout: recordTimeout, Logger: c.Logger})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err1
	}
	waiting := newBacklog(maxClaims, maxResults)
	return &Region{
		cfg: c, asking: asking, recording: recording, waiting: waiting, metrics: newMetrics(c.Registerer, waiting),
		mark: newMark(c.Prefix), abandon: valkey.NewLuaScriptRetryable(abandonScript),
	}, nil
}

func orDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// Close ends the connections. Nothing may be asked any more.
func (r *Region) Close() {
	if r != nil {
		r.asking.Close()
		r.recording.Close()
	}
}
