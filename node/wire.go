package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/agenda"
	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/inbound"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// The wiring of a node. Calls go along the arrows; what comes back is a return value.
//
//	client -> api -> proxy -> intake                   for a caller who waits for the answer
//	           |       '----> worker                   an attempt past the queue, which the queue has let pass
//	           '---> intake -> admit
//	                   |-----> region                   Claim, Stored
//	                   |-----> store                    Insert
//	                   '-----> calls                    Reserve, Push
//
//	calls -> caller -> worker -> store                  Begin, Retry
//	(queue)              |-----> dispatch -> egress -> target
//	                     '-----> ending -> store        Finish: result and owed delivery
//	                                |----> region       Ended, for the other nodes
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
//	registered -> egress -> control plane               pings, beside all this
//
// At the start, recovery reads the store into calls and deliveries before anything moves.

// parts are the pieces of a running node.
type parts struct {
	store      *pebblestore.Store
	regime     *regime
	egress     *egress.Client
	calls      *queue.Queue
	deliveries *queue.Queue
	caller     *caller
	hub        *events.Hub
	holds      *handoff.Holds // nil: the node hands nothing to others
	ending     *worker.Ending
	agenda     *agenda.Agenda
	gate       *admit.Gate
	admission  *admission
	payloads   payloads
	inbound    *inbound.Meter // nil: callers are told no rate
	server     *http.Server
	registered *registration
	cluster    *membership  // nil: the node is in none
	region     *region      // nil: the node remembers alone
	drain      *drain.Drain // nil: the node is not handed over
	moving     *moving      // nil: the node hands nothing to others
	cfg        *Config

	stopAttempts context.CancelFunc // cuts the attempts that are open
}

// assemble opens the store and builds the parts around it. Nothing moves yet. The API can be called at
// port, if there is a control plane to tell.
func (n *Node) assemble(ctx context.Context, port string) (_ *parts, err error) {
	n.warnOfDescriptors()
	p := &parts{cfg: &n.cfg}
	if p.store, err = n.openStore(ctx); err != nil {
		return nil, err
	}
	p.regime = newRegime(&n.cfg, p.store, n.deps.Logger)
	if err := p.regime.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("orders for targets: %w", err), p.store.Close())
	}
	if p.egress, err = n.newEgress(); err != nil {
		return nil, fmt.Errorf("egress: %w (and the store: %w)", err, p.store.Close())
	}
	p.hub = events.New(events.Config{Wait: n.cfg.StreamDeliveryWait(), Registerer: n.deps.Registry})
	p.gate = n.newGate(p.store)

	attempts, stop := context.WithCancel(context.Background())
	p.stopAttempts = stop
	sender := dispatch.New(dispatch.Config{Client: p.egress, MaxResponseBytes: n.cfg.MaxResponseBytes})
	p.payloads = payloads{Store: p.store, room: n.newRoom(job.Deliveries, partForPayloads), most: n.cfg.MaxResponseBytes}
	if n.cfg.movesWork() {
		p.holds = handoff.NewHolds()
	}
	deliverer := &deliverer{ctx: attempts, nodeID: n.cfg.NodeID, payloads: p.payloads, holds: p.holds}
	p.caller = &caller{ctx: attempts, room: n.newRoom(job.Calls, partForAnswers)}
	p.deliveries = n.newQueue(job.Deliveries, p, deliverer)
	p.calls = n.newQueue(job.Calls, p, p.caller)
	p.admission = &admission{
		Gate: p.gate, calls: p.calls, deliveries: p.deliveries,
		maxPending: n.cfg.Pacing.MaxPendingPerUpstream, maxWebhooks: n.cfg.Pacing.MaxPendingWebhooks,
	}
	p.regime.queues = []*queue.Queue{p.calls, p.deliveries}
	n.regime.Store(p.regime) // from here on the file may be read again
	if p.region, err = n.newRegion(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.ending = n.newEnding(p)
	p.agenda = n.newAgenda(p)
	p.inbound = n.newInbound(p.calls)
	if p.cluster, err = n.newMembership(&working{calls: p.calls, deliveries: p.deliveries, store: p.store}); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), p.close())
	}
	p.regime.divide(p.cluster.nodes())
	p.caller.worker = n.newWorker(p, sender)
	receivers := dispatch.New(dispatch.Config{Client: p.egress.WithoutRedirects(), MaxResponseBytes: receiverBytes})
	deliverer.webhook, deliverer.wake = n.newWebhook(p, receivers), p.agenda.Wake
	if p.drain, err = n.newDrain(p); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if p.moving, err = n.newMoving(p); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.server = n.newServer(p)
	if p.registered, err = n.newRegistration(p.egress, port); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (n *Node) openStore(ctx context.Context) (*pebblestore.Store, error) {
	c := n.cfg.Pebble
	s, err := pebblestore.Open(ctx, pebblestore.Options{
		Dir: n.cfg.DBPath, Ledger: n.cfg.Drain.Enabled, FS: n.deps.FS, FlushInterval: c.FlushInterval(), SyncInterval: c.WALSyncInterval(),
		CacheBytes: int64(c.CacheMB) * admit.MB, Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	if err != nil {
		return nil, fmt.Errorf("DB_PATH: %w", err)
	}
	return s, nil
}

const (
	// idleShare is the part of the process's descriptors that each of the two pools of idle connections
	// may take. Callers must still get in.
	idleShare = 16
	// fewDescriptors is below what a busy node needs: each call, caller and stream takes one.
	fewDescriptors = 4096
)

// idleConns is how many idle connections a pool may keep; 0 leaves it to the pool.
func (n *Node) idleConns() int {
	if n.deps.Descriptors == 0 {
		return 0
	}
	return int(max(1, min(n.deps.Descriptors/idleShare, math.MaxInt32)))
}

// warnOfDescriptors says that the process may have too few connections.
func (n *Node) warnOfDescriptors() {
	if limit := n.deps.Descriptors; limit > 0 && limit < fewDescriptors {
		n.deps.Logger.Warn("few files and connections may be open: raise the limit (ulimit -n), or callers are kept waiting under load",
			"limit", limit, "recommended", fewDescriptors)
	}
}

func (n *Node) newEgress() (*egress.Client, error) {
	return egress.New(egress.Config{
		Public: n.cfg.Egress == "public", Allow: n.cfg.EgressAllow, Dial: n.deps.Dial,
		FollowRedirects: n.cfg.FollowRedirects, Secret: job.Secret, HopAllowed: n.rules().AllowsHost,
		MaxIdleConns: n.idleConns(), Registerer: n.deps.Registry,
	})
}

func (n *Node) newQueue(l job.Line, p *parts, r queue.Runner) *queue.Queue {
	c := queue.Config{
		Line: l, Backlog: p.store, Runner: r, Logger: n.deps.Logger, Registerer: n.deps.Registry,
		CountTenants:  n.cfg.Pacing.MaxPendingWebhooks > 0 || n.cfg.Pacing.TenantLabels || n.cfg.Cluster.Enabled,
		TenantMetrics: n.cfg.Pacing.TenantLabels,
		Settings:      p.regime.receiverSettings,
	}
	if l == job.Calls {
		c.Settings = p.regime.targetSettings
		c.Paused = p.regime.paused
	}
	return queue.New(c)
}

func (n *Node) newEnding(p *parts) *worker.Ending {
	c := worker.EndingConfig{Ledger: p.store, Listeners: p.hub, Deliveries: p.deliveries, Holds: p.holds, Logger: n.deps.Logger}
	if p.region != nil {
		c.Ended, c.Void = p.region.Ended, p.region.Void
	}
	return worker.NewEnding(c)
}

func (n *Node) newWorker(p *parts, sender *dispatch.Dispatcher) *worker.Worker {
	return worker.New(worker.Config{
		Store: p.store, Sender: sender, Ending: p.ending, NodeID: n.cfg.NodeID, Wake: p.agenda.Wake, Logger: n.deps.Logger,
		Registerer: n.deps.Registry,
		Timeout:    func(host string) time.Duration { return p.regime.target(host).Timeout }, DirectTimeout: n.cfg.Proxy.DirectTimeout(),
		Policy: worker.Policy{
			BackoffMax: n.cfg.RetryMaxBackoff(), RetryAfterMax: n.cfg.RetryAfterMax(),
			CompletedTTL: n.cfg.CompletedTTL(), FailedTTL: n.cfg.FailedTTL(), ResultMaxBytes: int(n.cfg.ResultMaxBytes),
		},
	})
}

func (n *Node) newWebhook(p *parts, d *dispatch.Dispatcher) *webhook.Deliverer {
	return webhook.New(webhook.Config{
		Store: p.payloads, Logger: n.deps.Logger, Registerer: n.deps.Registry,
		Sender: &sender{dispatcher: d, timeout: func(host string) time.Duration { return p.regime.receiver(host).Timeout }},
		Policy: webhook.Policy{
			MaxAttempts: webhook.DefaultMaxAttempts, BackoffMax: n.cfg.RetryMaxBackoff(), RetryAfterMax: n.cfg.RetryAfterMax(),
		},
	})
}

// sweepInterval is how often expired jobs are removed. They are not shown in between.
const sweepInterval = 10 * time.Second

func (n *Node) newAgenda(p *parts) *agenda.Agenda {
	return agenda.New(agenda.Config{
		Store: p.store, Calls: p.calls, Deliveries: p.deliveries, Sweep: sweepInterval, Logger: n.deps.Logger,
		Fail: func(ctx context.Context, s job.Snapshot) error { return p.ending.Expire(ctx, s, n.cfg.FailedTTL()) },
	})
}

func (n *Node) newGate(s *pebblestore.Store) *admit.Gate {
	return admit.New(admit.Config{
		Limits:     admit.Limits{Memory: n.MemoryLimit(), DB: n.dbLimit(), SyncLag: n.cfg.MaxSyncLag()},
		RetryAfter: n.cfg.RetryAfter(), MaxBodyBytes: n.cfg.MaxBodyBytes, Registerer: n.deps.Registry,
		Sampler: admit.NewSampler(admit.Sources{
			Usage: func() (int64, time.Duration) { u := s.Usage(); return u.Bytes, u.DiskLag },
			Space: func() (free, volume int64, err error) { return space(n.deps.FS, n.cfg.DBPath) },
		}),
	})
}

func space(fs vfs.FS, dir string) (free, volume int64, err error) {
	u, err := fs.GetDiskUsage(dir)
	return int64(u.AvailBytes), int64(u.TotalBytes), err
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

// shared says whether the tenants of a target share one queue there: what the target has said comes first, then
// the node's own setting, in place of which a caller may only ask for a queue of its own.
func (p *parts) shared(target string, isolate bool) bool {
	if own, ok := p.calls.AccountQueue(target); ok {
		return !own
	}
	return p.cfg.Pacing.AccountQueue == "off" && !isolate
}

func (n *Node) newInbound(calls *queue.Queue) *inbound.Meter {
	c := n.cfg.Inbound
	if !c.Enabled {
		return nil
	}
	m := inbound.NewMeter(
		inbound.Config{BenchmarkRPS: float64(c.BenchmarkRPS), StartPercent: float64(c.StartPercent)},
		func() int { return calls.Stats().Waiting })
	m.Register(n.deps.Registry)
	return m
}

func (n *Node) newIntake(p *parts) *intake.Intake {
	c := intake.Config{
		Store: p.store, Calls: p.calls, Deliveries: p.deliveries, Shared: p.shared,
		Admission: p.admission, Draining: n.draining.Load, Wake: p.agenda.Wake, QueuedTTL: n.cfg.QueuedTTL(), Strict: n.cfg.IdempotencyStrict,
		IDs: job.IDs{Tag: n.tag(), Rand: n.deps.Rand},
	}
	if n.cfg.claims() {
		c.Region = claims{p.region.Region, n.cfg.Proxy.DirectTimeout()}
	}
	if p.inbound != nil {
		c.Inserted = p.inbound.Inserted
	}
	return intake.New(c)
}

// tag is what the ids of this node's jobs have in common.
func (n *Node) tag() job.NodeTag { return job.TagOf(cmp.Or(n.cfg.Cluster.SelfID, n.cfg.NodeID)) }

func (n *Node) newServer(p *parts) *http.Server {
	desk, in := &targetDesk{regime: p.regime, calls: p.calls}, n.newIntake(p)
	c := api.Config{
		Intake: in, Proxy: n.newProxy(p, in), Internal: n.internal, Jobs: p.store, Hub: p.hub, Results: p.region.reader(p.store, n.cfg.Remote.ResultMaxBytes), Targets: desk, Standing: desk.standing,
		Draining: n.draining.Load, Ready: p.ready, Health: p.health, RetryAfter: p.gate.RetryAfter,
		Metrics: promhttp.HandlerFor(n.deps.Registry, promhttp.HandlerOpts{}),
		Rules:   n.rules(), MaxBodyBytes: n.cfg.MaxBodyBytes, Memory: p.gate, StreamLife: n.cfg.StreamMax(),
		Logger: n.deps.Logger, Registerer: n.deps.Registry,
	}
	if p.inbound != nil {
		c.Advertise = p.inbound.Advertise
	}
	if p.cluster != nil {
		c.Cluster = p.cluster
	}
	return api.NewServer(p.cluster.gate(n, p.moving.route(api.New(c))), n.deps.Logger)
}

func (p *parts) recovery() *recovery {
	return &recovery{store: p.store, calls: p.calls, deliveries: p.deliveries, failedTTL: p.cfg.FailedTTL()}
}

// close closes what assemble opened. The region has opened nothing before it starts.
func (p *parts) close() error {
	p.stopAttempts()
	p.egress.Close()
	p.cluster.close()
	if err := p.store.Close(); err != nil {
		return fmt.Errorf("DB_PATH is %s: %w", p.cfg.DBPath, err)
	}
	return nil
}
