package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/agenda"
	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// The wiring of a node. Calls go along the arrows; what comes back is a return value.
//
//	client -> api -> intake -> admit
//	                   |-----> store                    Insert
//	                   '-----> calls                    Reserve, Push
//
//	calls -> caller -> worker -> store                  Begin, Retry
//	(queue)              |-----> dispatch -> egress -> target
//	                     '-----> ending -> store        Finish: result and owed delivery
//	                                |----> hub          streams wake, one may confirm
//	                                '----> deliveries   Reserve, Push
//
//	deliveries -> deliverer -> webhook -> store         Settle, Postpone
//	(queue)                       '-----> sender -> dispatch -> egress -> receiver
//
//	agenda -> store                                     Due, Requeue, Expire
//	   |----> calls, deliveries                         Resume, Push, Withdraw
//	   '----> ending                                    deadlines
//
// At the start, recovery reads the store into calls and deliveries before anything moves.

// parts are the pieces of a running node.
type parts struct {
	store      *pebblestore.Store
	egress     *egress.Client
	calls      *queue.Queue
	deliveries *queue.Queue
	hub        *events.Hub
	ending     *worker.Ending
	agenda     *agenda.Agenda
	gate       *admit.Gate
	server     *http.Server
	cfg        *Config

	stopAttempts context.CancelFunc // cuts the attempts that are open
}

// assemble opens the store and builds the parts around it. Nothing moves yet.
func (n *Node) assemble(ctx context.Context) (_ *parts, err error) {
	p := &parts{cfg: &n.cfg}
	if p.store, err = n.openStore(ctx); err != nil {
		return nil, err
	}
	if p.egress, err = n.newEgress(); err != nil {
		return nil, fmt.Errorf("egress: %w (and the store: %w)", err, p.store.Close())
	}
	p.hub = events.New(events.Config{Wait: n.cfg.StreamDeliveryWait(), Registerer: n.deps.Registry})
	p.gate = n.newGate(p.store)

	attempts, stop := context.WithCancel(context.Background())
	p.stopAttempts = stop
	sender := dispatch.New(dispatch.Config{Client: p.egress, MaxResponseBytes: n.cfg.MaxResponseBytes})
	deliverer := &deliverer{ctx: attempts, nodeID: n.cfg.NodeID}
	caller := &caller{ctx: attempts}
	p.deliveries = n.newQueue(job.Deliveries, p.store, deliverer, n.cfg.Webhooks)
	p.calls = n.newQueue(job.Calls, p.store, caller, n.cfg.Targets)
	p.ending = &worker.Ending{Ledger: p.store, Listeners: p.hub, Deliveries: line{p.deliveries}, Logger: n.deps.Logger}
	p.agenda = n.newAgenda(p)
	caller.worker = n.newWorker(p, sender)
	receivers := dispatch.New(dispatch.Config{Client: p.egress.WithoutRedirects(), MaxResponseBytes: n.cfg.MaxResponseBytes})
	deliverer.webhook, deliverer.wake = n.newWebhook(p.store, receivers), p.agenda.Wake
	p.server = n.newServer(p)
	return p, nil
}

func (n *Node) openStore(ctx context.Context) (*pebblestore.Store, error) {
	c := n.cfg.Pebble
	return pebblestore.Open(ctx, pebblestore.Options{
		Dir: n.cfg.DBPath, FS: n.deps.FS, FlushInterval: c.FlushInterval(), SyncInterval: c.WALSyncInterval(),
		CacheBytes: int64(c.CacheMB) * admit.MB, Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
}

func (n *Node) newEgress() (*egress.Client, error) {
	return egress.New(egress.Config{
		Public: n.cfg.Egress == "public", Allow: n.cfg.EgressAllow, Dial: n.deps.Dial,
		FollowRedirects: n.cfg.FollowRedirects, Secret: job.Secret, HopAllowed: n.rules().AllowsHost,
		Registerer: n.deps.Registry,
	})
}

func (n *Node) newQueue(l job.Line, backlog queue.Backlog, r queue.Runner, targets Targets) *queue.Queue {
	return queue.New(queue.Config{
		Line: l, Backlog: backlog, Runner: r, Logger: n.deps.Logger, Registerer: n.deps.Registry,
		Settings: func(host string) pace.Settings {
			t := targets.For(host)
			return pace.Settings{RPS: t.RPS, MaxConcurrent: t.MaxConcurrent}
		},
	})
}

func (n *Node) newWorker(p *parts, sender *dispatch.Dispatcher) *worker.Worker {
	return worker.New(worker.Config{
		Store: p.store, Sender: sender, Ending: p.ending, NodeID: n.cfg.NodeID, Wake: p.agenda.Wake, Logger: n.deps.Logger,
		Registerer: n.deps.Registry,
		Timeout:    func(host string) time.Duration { return n.cfg.Targets.For(host).Timeout },
		Policy: worker.Policy{
			BackoffMax: n.cfg.RetryMaxBackoff(), RetryAfterMax: n.cfg.RetryAfterMax(),
			CompletedTTL: n.cfg.CompletedTTL(), FailedTTL: n.cfg.FailedTTL(), ResultMaxBytes: int(n.cfg.ResultMaxBytes),
		},
	})
}

func (n *Node) newWebhook(s *pebblestore.Store, d *dispatch.Dispatcher) *webhook.Deliverer {
	return webhook.New(webhook.Config{
		Store: s, Gone: gone, Logger: n.deps.Logger, Registerer: n.deps.Registry,
		Sender: &sender{dispatcher: d, timeout: func(host string) time.Duration { return n.cfg.Webhooks.For(host).Timeout }},
		Policy: webhook.Policy{
			MaxAttempts: webhook.DefaultMaxAttempts, BackoffMax: n.cfg.RetryMaxBackoff(), RetryAfterMax: n.cfg.RetryAfterMax(),
		},
	})
}

// sweepInterval is how often expired jobs are removed. They are not shown in between.
const sweepInterval = 10 * time.Second

func (n *Node) newAgenda(p *parts) *agenda.Agenda {
	return agenda.New(agenda.Config{
		Store: p.store, Calls: line{p.calls}, Deliveries: line{p.deliveries}, Sweep: sweepInterval, Logger: n.deps.Logger,
		Fail: func(ctx context.Context, s job.Snapshot) error { return p.ending.Expire(ctx, s, n.cfg.FailedTTL()) },
	})
}

func (n *Node) newGate(s *pebblestore.Store) *admit.Gate {
	return admit.New(admit.Config{
		Limits:     admit.Limits{Memory: n.memoryLimit(), DB: n.dbLimit(), SyncLag: n.cfg.MaxSyncLag()},
		RetryAfter: n.cfg.RetryAfter(), MaxBodyBytes: n.cfg.MaxBodyBytes, Registerer: n.deps.Registry,
		Sampler: admit.NewSampler(admit.Sources{
			Usage: func() (int64, time.Duration) { u := s.Usage(); return u.Bytes, u.SyncLag },
			Space: func() (free, volume int64, err error) { return space(n.deps.FS, n.cfg.DBPath) },
		}),
	})
}

func space(fs vfs.FS, dir string) (free, volume int64, err error) {
	u, err := fs.GetDiskUsage(dir)
	return int64(u.AvailBytes), int64(u.TotalBytes), err
}

func (n *Node) memoryLimit() int64 {
	if n.cfg.MemoryLimitMB == Auto {
		return admit.AutoMemory(admit.MachineMemory(os.DirFS("/")))
	}
	return int64(n.cfg.MemoryLimitMB) * admit.MB
}

func (n *Node) dbLimit() int64 {
	if n.cfg.DBMaxBytes == Auto {
		return admit.Auto
	}
	return int64(n.cfg.DBMaxBytes)
}

func (n *Node) rules() job.Rules {
	return job.Rules{
		URLDomains: n.cfg.AllowedURLDomains, WebhookDomains: n.cfg.AllowedWebhookDomains,
		SharedScope: n.cfg.SharedIdempotencyEnabled,
	}
}

func (n *Node) newIntake(p *parts) *intake.Intake {
	return intake.New(intake.Config{
		Store: p.store, Calls: line{p.calls}, Deliveries: line{p.deliveries}, Admit: p.gate.Admit,
		Draining: n.draining.Load, Wake: p.agenda.Wake, QueuedTTL: n.cfg.QueuedTTL(), Strict: n.cfg.IdempotencyStrict,
		IDs: job.IDs{Tag: job.TagOf(n.cfg.NodeID), Rand: n.deps.Rand},
	})
}

func (n *Node) newServer(p *parts) *http.Server {
	handler := api.New(api.Config{
		Intake: n.newIntake(p), Jobs: p.store, Hub: p.hub, Position: p.calls.Position,
		Draining: n.draining.Load, Ready: func() error { return nil }, Health: p.health, RetryAfter: p.gate.RetryAfter,
		Metrics: promhttp.HandlerFor(n.deps.Registry, promhttp.HandlerOpts{}),
		Rules:   n.rules(), MaxBodyBytes: n.cfg.MaxBodyBytes, StreamLife: n.cfg.StreamMax(),
		Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	return api.NewServer(handler, n.deps.Logger)
}

func (p *parts) recovery() *recovery {
	return &recovery{store: p.store, calls: p.calls, deliveries: p.deliveries, failedTTL: p.cfg.FailedTTL()}
}

// close closes what assemble opened.
func (p *parts) close() error {
	p.stopAttempts()
	p.egress.Close()
	return p.store.Close()
}
