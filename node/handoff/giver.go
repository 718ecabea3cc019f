package handoff

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Offerer is the part of the job store that keeps what is offered.
type Offerer interface {
	Offer(ctx context.Context, peer string, work []store.Handed) ([]store.Handed, error)
	Offers(ctx context.Context) iter.Seq2[store.Offered, error]
	Keep(ctx context.Context, peer string, work []store.Handed) ([]store.Handed, error)
	Forget(ctx context.Context, peer string, work []store.Handed) error
}

// Peer is another node.
type Peer struct {
	ID      string
	Address string // base URL, without a slash at its end
}

// Peers says who the other nodes are. It is safe for concurrent use.
type Peers interface {
	// Owner returns the node that owns the tenant of a job when neither this one does nor one of tried, the ids of those
	// that take no work now; false if there is none. Where nodes share a note of who owns the tenant, none of tried
	// stands there afterwards. Otherwise nobody is to think less of tried: they go on with what they have.
	Owner(ctx context.Context, j *job.Job, tried []string) (Peer, bool)
	// Anybody reports whether there is a node that may own anything when this one does not.
	Anybody() bool
	// Member returns the node of an id; false if it is not there now.
	Member(id string) (Peer, bool)
}

// GiverConfig is what a Giver is built from. All is required, but for what has a usable zero.
type GiverConfig struct {
	Store Offerer
	// Unfinished iterates over the work of the job store that can be offered.
	Unfinished func(ctx context.Context) iter.Seq2[store.Handed, error]
	Peers      Peers
	// Lines are where work waits that Resume takes back.
	Lines Lines
	// Backlog is how many unfinished jobs the node's queues count; they are not told of what is handed over.
	Backlog func() int
	// Holds are the jobs that stay, because the node is still at work on them; nil for none.
	Holds *Holds
	// Transport carries batches.
	Transport http.RoundTripper
	// Unsent reports whether an error of Transport proves that the peer has got nothing of the request; nil
	// says that none does. What is not proven is in doubt.
	Unsent func(error) bool
	// Sign seals a request to the node of an id; nil does not.
	Sign func(r *http.Request, to string, body []byte)
	// BatchJobs and BatchBytes bound a batch; 0 means 512 jobs and 1 MiB. A job that is larger goes alone.
	BatchJobs  int
	BatchBytes int
	// AnswerTimeout bounds how long a peer may take for a batch; 0 means 10 s.
	AnswerTimeout time.Duration
	// Patience is how long Resume waits for a peer that may have work of this node; 0 means 10 min.
	// A shorter one runs work sooner of which a peer that is away may have a copy.
	Patience time.Duration
	Metrics  *Metrics // nil: nothing is counted
	Logger   *slog.Logger
}

const (
	defaultJobs     = 512
	defaultBytes    = 1 << 20
	defaultTimeout  = 10 * time.Second
	defaultPatience = 10 * time.Minute

	// firstPause and maxPause are between two passes over what could not be handed over.
	firstPause, maxPause = 100 * time.Millisecond, 2 * time.Second
	// recording is how long the store may take for each of the two changes that note what a peer has said, also when time is
	// up: both must have an end before a node that stops closes its store.
	recording = time.Second
)

// Giver hands work over. Drain and Resume must not run at a time.
type Giver struct {
	GiverConfig
	wire wire
}

// NewGiver returns a giver. It fails only if this program is wrong.
func NewGiver(c GiverConfig) (*Giver, error) {
	if c.BatchJobs == 0 {
		c.BatchJobs = defaultJobs
	}
	c.BatchJobs = min(c.BatchJobs, MaxJobs)
	if c.BatchBytes == 0 {
		c.BatchBytes = defaultBytes
	}
	if c.AnswerTimeout == 0 {
		c.AnswerTimeout = defaultTimeout
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	w, err := newWire()
	return &Giver{GiverConfig: c, wire: w}, err
}

// Report is what became of a node's unfinished work.
type Report struct {
	Handed int // jobs that peers have now
	Left   int // jobs that stay for the next start
	Doubt  int // jobs that a peer may have: the next start asks it
}

// offered reads what is offered, by peer.
func (g *Giver) offered(ctx context.Context) (map[string][]store.Handed, error) {
	all := make(map[string][]store.Handed)
	for o, err := range g.Store.Offers(ctx) {
		if err != nil {
			return nil, err
		}
		all[o.Peer] = append(all[o.Peer], o.Handed)
	}
	return all, nil
}
