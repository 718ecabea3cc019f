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
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Intake takes work.
type Intake interface {
	Submit(ctx context.Context, s intake.Submission) (intake.Receipt, error)
	Redrive(ctx context.Context, id job.ID) (intake.Receipt, error)
	Redeliver(ctx context.Context, id job.ID) error
}

// Jobs are the jobs that the node knows.
type Jobs interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
}

// Hub tells what happens to a job. It hears of the end of a job only when Jobs shows it.
type Hub interface {
	Subscribe(id job.ID) *events.Subscription
}

// Config is what the face is built from. Fields without a stated zero are required.
type Config struct {
	Intake Intake
	Jobs   Jobs
	Hub    Hub
	// Position is how many jobs are in front of e in its lane, plus one; false if e does not wait.
	Position func(ctx context.Context, e job.Entry) (int, bool, error)

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
	// StreamLife is how long a stream stays open before its client must come back; 0 for an hour.
	// A shorter life spreads clients over restarted nodes sooner, a longer one reconnects less.
	StreamLife time.Duration

	Logger *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}
