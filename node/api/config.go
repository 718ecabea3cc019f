package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/proxy"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Intake takes work.
type Intake interface {
	Submit(ctx context.Context, s intake.Submission) (intake.Receipt, error)
	Redrive(ctx context.Context, id job.ID) (intake.Receipt, error)
	Redeliver(ctx context.Context, id job.ID) error
}

// Proxy tries calls whose callers wait for the answer. *proxy.Proxy is one.
type Proxy interface {
	Try(ctx context.Context, s intake.Submission) (proxy.Result, error)
}

// Jobs are the jobs that the node knows.
type Jobs interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
}

// Memory is where request bodies that are being read find room. Its errors are faults.
type Memory interface {
	Reserve(bytes int64) error
	Release(bytes int64)
}

// Hub tells what happens to a job. It hears of the end of a job only when Jobs shows it.
type Hub interface {
	Subscribe(id job.ID) *events.Subscription
}

// Cluster brings requests to the nodes that are to answer them.
type Cluster interface {
	// ToOwner brings a request that has a right body to the owner of its job, and the answer to the client. It
	// returns the status of the answer; 0: this node is to answer.
	ToOwner(w http.ResponseWriter, r *http.Request, q *job.Request, body []byte) int
	// ToHolder does the same for a request about a job that is not here; 0: it is nowhere.
	ToHolder(w http.ResponseWriter, r *http.Request, id job.ID) int
	// ToKeyHolder does the same for a request about a key; 0: no other node knows it.
	ToKeyHolder(w http.ResponseWriter, r *http.Request, key job.Key) int
	// Owner tells who owns a user's jobs. Its errors are faults.
	Owner(ctx context.Context, userID string) (Owner, error)
}

// Results tells what jobs have answered.
type Results interface {
	// Result returns the JSON of what the job of a key has answered, as far as this node and what the region
	// remembers can tell. Errors are faults, NotFound if there is none, or those of a store.
	Result(ctx context.Context, key job.Key) (string, error)
}

// Config is what the face is built from. Fields without a stated zero are required.
type Config struct {
	Intake Intake
	Proxy  Proxy
	Jobs   Jobs
	Hub    Hub
	// Results are found by key.
	Results Results
	// Advertise notes that a user hands in a job and returns how many a second it may hand in; nil: nobody is
	// told.
	Advertise func(userID string) string
	// Cluster is that of the node; nil: this node answers all.
	Cluster Cluster
	// Internal says whether a request may have what only nodes say to each other; nil: all may.
	Internal func(r *http.Request) bool
	// Targets shows targets and takes orders for them.
	Targets Targets
	// Standing is where e waits; false if it does not.
	Standing func(ctx context.Context, e job.Entry) (Standing, bool, error)

	// Draining says whether the node is shutting down.
	Draining func() bool
	// Ready returns nil when the node serves, else why it does not.
	Ready func() error
	// Health is what GET /health shows; Status is filled in by the face.
	Health func() Health
	// RetryAfter is what a refusal says that does not know better.
	RetryAfter func() time.Duration
	// Metrics serves GET /metrics; nil for no such route.
	Metrics http.Handler

	Rules job.Rules
	// MaxBodyBytes is the largest body of a request; 0 for no limit.
	MaxBodyBytes int64
	// Memory is asked before more than 64 KiB of a body are held.
	Memory Memory
	// StreamLife is how long a stream stays open before its client must come back; 0 for an hour.
	// A shorter life spreads clients over restarted nodes sooner, a longer one reconnects less.
	StreamLife time.Duration

	Logger *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}
