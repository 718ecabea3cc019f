package node

import (
	"log/slog"
	"time"
)

// Config is everything an operator can set. The tags are the reference: env is the variable, envDefault
// its default, default a default that is worked out at the start, unit, min, max and oneof what it may
// be, doc what it does; section heads the part of the reference that starts there. A field of type
// AutoInt may be "auto". A field tagged secret is never shown; one whose tag is "url" without the secrets
// that a URL may carry, see shownURL.
//
// FromEnv makes one; the zero Config is not valid.
type Config struct {
	Listen     string `section:"Node" env:"AQUIFER_LISTEN" default:":$PORT" unit:"host:port" doc:"Where the API listens."`
	Port       int    `env:"PORT" envDefault:"8080" min:"1" max:"65535" doc:"Port of the API when AQUIFER_LISTEN is not set."`
	NodeID     string `env:"AQUIFER_NODE_ID" default:"AQUIFER_CLUSTER_SELF_ID, else FLY_MACHINE_ID, else the host name" doc:"Name of this node. Targets see it as X-Aqueduct-Node-Id, and job ids carry a tag of it."`
	ConfigPath string `env:"CONFIG_PATH" unit:"path" doc:"YAML file with the pace of each target, see below."`

	DBPath string `section:"Storage" env:"DB_PATH" envDefault:"aquifer.db" unit:"path" doc:"Directory of the job store."`
	Pebble PebbleConfig
	// DBMaxBytes closes intake; see MemoryLimitMB for what Auto means.
	DBMaxBytes   AutoInt `env:"AQUIFER_DB_MAX_BYTES" envDefault:"auto" unit:"bytes" doc:"Store size above which new jobs are refused; auto is 80 % of what the file system can give it; 0 turns the check off."`
	MaxSyncLagMS int     `env:"AQUIFER_MAX_SYNC_LAG_MS" envDefault:"1000" unit:"ms" min:"0" max:"3600000" doc:"New jobs are refused while an accepted one has waited this long for the disk. Higher: a slow disk refuses later and a power cut may take more. 0 turns the check off."`

	MaxBodyBytes int64 `section:"Intake" env:"AQUIFER_MAX_BODY_BYTES" envDefault:"1048576" unit:"bytes" min:"0" doc:"Largest request body of the API; 0 means no limit."`
	// MemoryLimitMB is Auto when the node measures at the start what the machine has.
	MemoryLimitMB            AutoInt  `env:"AQUIFER_MEMORY_LIMIT_MB" envDefault:"auto" unit:"MB" doc:"Memory of the process above which new jobs are refused; auto is 70 % of the container's or the machine's memory; 0 turns the check off."`
	RetryAfterSeconds        int      `env:"AQUIFER_RETRY_AFTER_SECONDS" envDefault:"5" unit:"s" min:"1" max:"60" doc:"Retry-After of the first refusal under pressure; it doubles with each further one, up to 60 s."`
	AllowedURLDomains        []string `env:"AQUIFER_ALLOWED_URL_DOMAINS" unit:"hosts" doc:"Comma list of the hosts that a job's url may have, each with its subdomains; empty allows all."`
	AllowedWebhookDomains    []string `env:"AQUIFER_ALLOWED_WEBHOOK_DOMAINS" unit:"hosts" doc:"The same for webhook_url."`
	SharedIdempotencyEnabled bool     `env:"AQUIFER_SHARED_IDEMPOTENCY_ENABLED" envDefault:"false" doc:"Allows idempotency_scope shared: one key for all users."`
	IdempotencyStrict        bool     `env:"AQUIFER_IDEMPOTENCY_STRICT" envDefault:"false" doc:"Answers 422 to a known key with another payload, in place of 200 with payload_mismatch."`

	Pacing PacingConfig
	Proxy  ProxyConfig

	Breaker BreakerConfig
	Inbound InboundConfig

	AttemptTimeoutSeconds  int      `section:"Attempts" env:"AQUIFER_ATTEMPT_TIMEOUT_SECONDS" envDefault:"120" unit:"s" min:"0" max:"86400" doc:"Limit of one attempt where neither the job nor the YAML file sets one; 0 means no limit."`
	RetryMaxBackoffSeconds int      `env:"AQUIFER_RETRY_MAX_BACKOFF_SECONDS" envDefault:"300" unit:"s" min:"1" max:"86400" doc:"Longest wait between attempts that the node chooses by itself."`
	RetryAfterMaxSeconds   int      `env:"AQUIFER_RETRY_AFTER_MAX_SECONDS" envDefault:"3600" unit:"s" min:"1" max:"86400" doc:"Longest wait that a target may ask for."`
	MaxResponseBytes       int64    `env:"AQUIFER_RESPONSE_MAX_BYTES" envDefault:"16777216" unit:"bytes" min:"1" doc:"Largest answer that is read from a target; a longer one is cut and marked."`
	FollowRedirects        int      `env:"AQUIFER_FOLLOW_REDIRECTS" envDefault:"0" min:"0" max:"5" doc:"Redirects that an attempt follows; 0 makes the redirect the result."`
	Egress                 string   `env:"AQUIFER_EGRESS" envDefault:"any" oneof:"any,public" doc:"public also refuses private, loopback and shared addresses; link-local and cloud metadata addresses are always refused."`
	EgressAllow            []string `env:"AQUIFER_EGRESS_ALLOW" unit:"hosts or CIDRs" doc:"Comma list of what the two rules above do not apply to."`

	ResultMaxBytes      int64 `section:"Results and streams" env:"AQUIFER_RESULT_MAX_BYTES" envDefault:"65536" unit:"bytes" min:"0" doc:"How much of an answer's body is kept for GET /jobs/{id}; 0 keeps none."`
	QueuedTTLSeconds    int   `env:"AQUIFER_QUEUED_TTL_SECONDS" envDefault:"86400" unit:"s" min:"1" max:"31536000" doc:"How long a job may stay unfinished when it has no execute_before."`
	CompletedTTLSeconds int   `env:"AQUIFER_COMPLETED_TTL_SECONDS" envDefault:"1800" unit:"s" min:"1" max:"31536000" doc:"How long a completed job, and its key, are kept."`
	FailedTTLSeconds    int   `env:"AQUIFER_FAILED_TTL_SECONDS" envDefault:"7200" unit:"s" min:"1" max:"31536000" doc:"How long a failed job, and its key, are kept."`

	StreamDeliveryWaitMS int `env:"AQUIFER_STREAM_DELIVERY_WAIT_MS" envDefault:"2000" unit:"ms" min:"0" max:"60000" doc:"How long a finished job waits for a listening stream to take its result before the webhook is owed."`
	StreamMaxSeconds     int `env:"AQUIFER_STREAM_MAX_SECONDS" envDefault:"3600" unit:"s" min:"1" max:"86400" doc:"Longest life of one stream; the client resumes with Last-Event-ID."`

	Cluster  ClusterConfig
	Valkey   ValkeyConfig
	Drain    DrainConfig
	Remote   RemoteConfig
	Registry RegistryConfig

	ShutdownTimeoutSeconds int `section:"Shutdown" env:"AQUIFER_SHUTDOWN_TIMEOUT_SECONDS" envDefault:"30" unit:"s" min:"1" max:"3600" doc:"Bound of the whole shutdown; what is unfinished then stays on disk."`
	ShutdownQuiesceMS      int `env:"AQUIFER_SHUTDOWN_QUIESCE_MS" envDefault:"500" unit:"ms" min:"0" max:"60000" doc:"How long the API still answers, refusing new jobs, so that load balancers see it leave."`

	DebugAddr string `section:"Observation" env:"AQUIFER_DEBUG_ADDR" unit:"host:port" doc:"Listener for profiles; off when empty. Never expose it."`
	Log       string `env:"AQUIFER_LOG" envDefault:"auto" oneof:"auto,json,text" doc:"Form of the log; auto is text on a terminal, else json."`
	LogLevel  string `env:"AQUIFER_LOG_LEVEL" envDefault:"info" oneof:"debug,info,warn,error" doc:"What is logged, from this level up."`

	// Targets is what the YAML file allows calls to each target, Webhooks deliveries to each receiver.
	Targets  Targets `env:"-"`
	Webhooks Targets `env:"-"`
}

// PebbleConfig is how the store writes.
type PebbleConfig struct {
	WALSyncIntervalMS int `env:"AQUIFER_PEBBLE_WAL_SYNC_INTERVAL_MS" envDefault:"5" unit:"ms" min:"0" max:"1000" doc:"How long synced writes may wait to share one sync when many do; never more than 2 ms, whatever is set. Higher: fewer syncs, slower answers."`
	FlushIntervalMS   int `env:"AQUIFER_PEBBLE_FLUSH_INTERVAL_MS" envDefault:"100" unit:"ms" min:"0" max:"60000" doc:"Time between background syncs, and so what a power cut can take; the death of the process takes nothing. 0 makes each answer to a new job wait for its sync."`
	CacheMB           int `env:"AQUIFER_PEBBLE_CACHE_MB" envDefault:"64" unit:"MB" min:"1" max:"65536" doc:"Block cache."`
}

// PacingConfig is how targets are paced and shared beyond what the YAML file says.
type PacingConfig struct {
	AccountQueue          string `section:"Pacing and fairness" env:"AQUIFER_ACCOUNT_QUEUE" envDefault:"on" oneof:"on,off" doc:"on gives each tenant (user and API key) a queue of its own at each target; off has all share one, unless the target or the caller asks for isolation."`
	HintTTLSeconds        int    `env:"AQUIFER_HINT_TTL_SECONDS" envDefault:"30" unit:"s" min:"1" max:"86400" doc:"How long a limit that a target has asked for holds after it was last heard. Higher: a target is spared longer, and an outdated limit stays longer."`
	IdleTimeoutSeconds    int    `env:"AQUIFER_IDLE_TIMEOUT_SECONDS" envDefault:"300" unit:"s" min:"1" max:"86400" doc:"How long a target has had no work when its next work counts as a start, which may be a slow one."`
	MaxPendingPerUpstream int    `env:"AQUIFER_MAX_PENDING_PER_UPSTREAM" envDefault:"10000" unit:"jobs" min:"0" doc:"Unfinished jobs that a target may have, shared fairly by its tenants, until new ones are refused; small queues still join up to 125 %. A target can set its own with X-Aqueduct-Max-Backlog. 0 turns the check off."`
	MaxPendingWebhooks    int    `env:"AQUIFER_MAX_PENDING_WEBHOOKS_PER_USER" envDefault:"1000" unit:"deliveries" min:"0" doc:"Undelivered webhooks of one user from which on its new jobs are refused more and more, while others have work here. 0 turns the check off."`
	TenantLabels          bool   `env:"AQUIFER_METRICS_TENANT_LABELS" envDefault:"false" doc:"Adds metrics for each tenant, of at most 1,000 tenants."`
}

// HintTTL is how long a limit that a target has asked for holds.
func (p PacingConfig) HintTTL() time.Duration { return seconds(p.HintTTLSeconds) }

// Idle is how long a target has had no work when the next counts as a start.
func (p PacingConfig) Idle() time.Duration { return seconds(p.IdleTimeoutSeconds) }

// ProxyConfig is how targets are called past their queues.
type ProxyConfig struct {
	DirectSeconds int `section:"Proxy" env:"AQUIFER_PROXY_DIRECT_ATTEMPT_TIMEOUT_SECONDS" envDefault:"3" unit:"s" min:"1" max:"600" doc:"Bound of the attempt that POST /proxy makes before it joins the queue. Higher: slow targets are answered on the spot, and callers learn later of one that hangs."`
}

// DirectTimeout bounds an attempt past the queue.
func (p ProxyConfig) DirectTimeout() time.Duration { return seconds(p.DirectSeconds) }

// BreakerConfig is how long the breaker of a target stays open.
type BreakerConfig struct {
	RetryMultiplier int `section:"Breaker" env:"AQUIFER_PROXY_BREAKER_RETRY_MULTIPLIER" envDefault:"3" min:"1" max:"100" doc:"How many times as long as a Retry-After says the breaker stays open that an answer to a direct call has opened."`
	CooldownSeconds int `env:"AQUIFER_PROXY_BREAKER_DEFAULT_COOLDOWN_SECONDS" envDefault:"5" unit:"s" min:"1" max:"3600" doc:"How long a breaker stays open when its target has not said when to come back, as one that cannot be reached never has."`
}

// InboundConfig is how callers are told at which rate they may hand in jobs.
type InboundConfig struct {
	Enabled      bool `section:"Inbound pacing" env:"AQUIFER_INBOUND_RPS_ENABLED" envDefault:"false" doc:"Tells callers in X-Aqueduct-Rps how many jobs a second each of them may hand in; nobody is held to it."`
	BenchmarkRPS int  `env:"AQUIFER_INBOUND_BENCHMARK_RPS" envDefault:"400" unit:"jobs/s" min:"1" max:"1000000000" doc:"Rate that this machine is known to take; ten times as much is the ceiling."`
	StartPercent int  `env:"AQUIFER_INBOUND_START_PERCENT" envDefault:"40" unit:"%" min:"1" max:"1000" doc:"Part of it that is told at the start."`
}

// RegistryConfig is how the node reports itself to a control plane.
type RegistryConfig struct {
	URL             string `section:"Registry" env:"AQUIFER_REGISTRY_URL" unit:"URL" secret:"url" doc:"Where the node reports itself to a control plane such as Canalis, see registry/README.md; off when empty."`
	IntervalSeconds int    `env:"AQUIFER_REGISTRY_INTERVAL_SECONDS" envDefault:"15" unit:"s" min:"1" max:"3600" doc:"Longest time between two reports. Higher: a dead node is taken for alive longer. Canalis forgets a node after 45 s."`
}

// Interval is the longest time between two reports.
func (r RegistryConfig) Interval() time.Duration { return seconds(r.IntervalSeconds) }

// ClusterConfig is the node's place among the nodes of its region.
type ClusterConfig struct {
	Enabled         bool     `section:"Cluster" env:"AQUIFER_CLUSTER_ENABLED" envDefault:"false" doc:"Makes the node one of a cluster: each tenant's jobs are then kept by one of its nodes, whichever is called."`
	Provider        string   `env:"AQUIFER_CLUSTER_PROVIDER" envDefault:"static" oneof:"static,gossip,valkey" doc:"How nodes know of each other."`
	SelfID          string   `env:"AQUIFER_CLUSTER_SELF_ID" default:"AQUIFER_NODE_ID" doc:"Id of this node among the others, of visible ASCII without comma and equals sign. It belongs to the node's disk and is never used twice at a time."`
	SelfAddr        string   `env:"AQUIFER_CLUSTER_SELF_ADDR" unit:"URL" doc:"Base URL at which the other nodes reach this one, such as http://10.0.0.1:8080 and never http://0.0.0.0:8080; required in a cluster."`
	Members         []string `env:"AQUIFER_CLUSTER_MEMBERS" unit:"id=URL" doc:"static: comma list of all nodes; this one may be among them."`
	MaxActiveUsers  int      `env:"AQUIFER_CLUSTER_MAX_ACTIVE_USERS" envDefault:"100" unit:"tenants" min:"1" max:"1000000000" doc:"Capacity of this node, which is its share among the others and no limit."`
	PruneTTLSeconds int      `env:"AQUIFER_CLUSTER_PRUNE_TTL_SECONDS" envDefault:"30" unit:"s" min:"1" max:"3600" doc:"How long a node that could not be reached is passed over, unless it shows a sign of life. Lower: one that is back is found sooner. Higher: callers wait less often for one that is not."`
	GossipBind      string   `env:"AQUIFER_CLUSTER_GOSSIP_BIND" envDefault:":7946" unit:"ip:port or :port" doc:"gossip: where this node gossips, UDP and TCP."`
	GossipAdvertise string   `env:"AQUIFER_CLUSTER_GOSSIP_ADVERTISE" default:"host of AQUIFER_CLUSTER_SELF_ADDR" unit:"host:port" doc:"gossip: where the others reach that."`
	Join            []string `env:"AQUIFER_CLUSTER_JOIN" unit:"host:port" doc:"gossip: comma list of nodes to join at; a name stands for all addresses it has, and is looked up again for ever."`
	GossipKey       []string `env:"AQUIFER_CLUSTER_GOSSIP_KEY" unit:"base64" secret:"true" doc:"gossip: comma list of keys of 16, 24 or 32 bytes. The first encrypts, all decrypt; without any, gossip is readable."`
	ValkeyURL       string   `env:"AQUIFER_CLUSTER_VALKEY_URL" default:"AQUIFER_VALKEY_URL" unit:"URL" secret:"url" doc:"valkey: the Valkey that all nodes of the region share."`
	ValkeyPrefix    string   `env:"AQUIFER_CLUSTER_VALKEY_PREFIX" envDefault:"aqueduct:" doc:"valkey: what the names of all keys begin with."`
	ValkeyTimeoutMS int      `env:"AQUIFER_CLUSTER_VALKEY_TIMEOUT_MS" envDefault:"50" unit:"ms" min:"1" max:"10000" doc:"valkey: bound of each question. Lower: callers wait less for a Valkey that is ill. Higher: one that is only slow is still heard."`
	HeartbeatSecs   int      `env:"AQUIFER_CLUSTER_HEARTBEAT_SECONDS" envDefault:"5" unit:"s" min:"1" max:"3600" doc:"valkey: time between two signs of life."`
	InstanceTTLSecs int      `env:"AQUIFER_CLUSTER_INSTANCE_TTL_SECONDS" envDefault:"15" unit:"s" min:"1" max:"86400" doc:"valkey: how long a node without a sign of life counts as alive; never less than three heartbeats."`
	IdleSecs        int      `env:"AQUIFER_CLUSTER_ASSIGNMENT_IDLE_SECONDS" envDefault:"300" unit:"s" min:"1" max:"86400" doc:"valkey: how long a tenant stays with its owner after its last request."`
	PeerSecret      []string `env:"AQUIFER_PEER_SECRET" unit:"secrets" secret:"true" doc:"Comma list of secrets of at least 16 bytes by which nodes prove themselves to each other. The first signs, all are believed; without any, whoever reaches a node can speak for another one."`
	Region          string   `env:"FLY_REGION" doc:"Region of this node."`
}

// DrainConfig is how the node is handed over from one tenant to the next.
type DrainConfig struct {
	Enabled        bool   `section:"Drain mode" env:"AQUIFER_DRAIN_ENABLED" envDefault:"false" doc:"Tells another system of every job that has ended, and forgets what was told once the node is idle, see drain/README.md."`
	Sink           string `env:"AQUIFER_DRAIN_SINK" envDefault:"webhook" oneof:"webhook,valkey" doc:"Who is told. valkey: what each key became, for all nodes of the region, as with AQUIFER_REMOTE_IDEMPOTENCY_ENABLED."`
	WebhookURL     string `env:"AQUIFER_DRAIN_WEBHOOK_URL" unit:"URL" secret:"url" doc:"Where the webhook is; required in drain mode with that sink."`
	TimerSeconds   int    `env:"AQUIFER_DRAIN_TIMER_SECONDS" envDefault:"45" unit:"s" min:"1" max:"86400" doc:"How long the node must be idle before it is handed over."`
	BatchEnabled   bool   `env:"AQUIFER_DRAIN_BATCH_ENABLED" envDefault:"false" doc:"Tells in the meantime too."`
	BatchSeconds   int    `env:"AQUIFER_DRAIN_BATCH_INTERVAL_SECONDS" envDefault:"60" unit:"s" min:"1" max:"86400" doc:"How often it does."`
	BatchMaxEvents int    `env:"AQUIFER_DRAIN_BATCH_MAX_EVENTS" envDefault:"1000" min:"1" max:"10000" doc:"Jobs in one message at most."`
}

// interval is how often the sink is told in the meantime; 0: not at all.
func (d DrainConfig) interval() time.Duration {
	if !d.BatchEnabled {
		return 0
	}
	return seconds(d.BatchSeconds)
}

// ValkeyConfig is the Valkey that the nodes of a region share.
type ValkeyConfig struct {
	URL     string `section:"Valkey" env:"AQUIFER_VALKEY_URL" unit:"URL" secret:"url" doc:"redis://, rediss://, valkey:// or valkeys://, with user, password, host, port and database; addr= for further addresses, master_set= for Sentinel."`
	CAFile  string `env:"AQUIFER_VALKEY_CA_FILE" unit:"path" doc:"Certificates to trust in place of the system's, in PEM form."`
	HashTag string `env:"AQUIFER_VALKEY_HASHTAG" doc:"Part of the keys' names that keeps them in one place of a Valkey Cluster; empty for any other Valkey."`
}

// RemoteConfig is what the nodes of a region remember together, in their Valkey.
type RemoteConfig struct {
	IdempotencyEnabled bool   `section:"Region-wide keys and results" env:"AQUIFER_REMOTE_IDEMPOTENCY_ENABLED" envDefault:"false" doc:"Makes a key one job in the whole region: it is claimed in Valkey before its job is stored."`
	TimeoutMS          int    `env:"AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS" envDefault:"25" unit:"ms" min:"1" max:"10000" doc:"How long a caller waits for Valkey at most; then the node decides alone. Lower: callers wait less for a Valkey that is ill. Higher: one that is only slow is still heard."`
	IdempotencyPrefix  string `env:"AQUIFER_REMOTE_IDEMPOTENCY_PREFIX" envDefault:"aqueduct:idempotency:" doc:"What the names of the keys begin with in Valkey."`
	TTLSeconds         int    `env:"AQUIFER_REMOTE_IDEMPOTENCY_TTL_SECONDS" envDefault:"7200" unit:"s" min:"1" max:"31536000" doc:"How long an ended job's key and result are kept there; one that has not ended keeps its key."`
	ResultEnabled      bool   `env:"AQUIFER_REMOTE_RESULT_ENABLED" envDefault:"false" doc:"Keeps in Valkey what jobs answered, for GET /results at any node."`
	ResultPrefix       string `env:"AQUIFER_REMOTE_RESULT_PREFIX" envDefault:"aqueduct:result:" doc:"What the names of the results begin with in Valkey."`
	ResultMaxBytes     int    `env:"AQUIFER_REMOTE_RESULT_MAX_BYTES" envDefault:"65536" unit:"bytes" min:"0" max:"16777216" doc:"How much of an answer's body GET /results shows and Valkey keeps; 0 for none."`
}

// PruneTTL is how long a node that could not be reached is passed over.
func (c ClusterConfig) PruneTTL() time.Duration { return seconds(c.PruneTTLSeconds) }

// WALSyncInterval is the upper bound of the group commit window.
func (p PebbleConfig) WALSyncInterval() time.Duration { return milliseconds(p.WALSyncIntervalMS) }

// FlushInterval is the time between background syncs; 0 syncs every write.
func (p PebbleConfig) FlushInterval() time.Duration { return milliseconds(p.FlushIntervalMS) }

// MaxSyncLag is the sync lag that closes intake; 0 never does.
func (c *Config) MaxSyncLag() time.Duration { return milliseconds(c.MaxSyncLagMS) }

// RetryAfter is the first Retry-After under pressure.
func (c *Config) RetryAfter() time.Duration { return seconds(c.RetryAfterSeconds) }

// AttemptTimeout bounds one attempt; 0 does not.
func (c *Config) AttemptTimeout() time.Duration { return seconds(c.AttemptTimeoutSeconds) }

// RetryMaxBackoff is the longest wait between attempts of the node's own choice.
func (c *Config) RetryMaxBackoff() time.Duration { return seconds(c.RetryMaxBackoffSeconds) }

// RetryAfterMax is the longest wait that a target may ask for.
func (c *Config) RetryAfterMax() time.Duration { return seconds(c.RetryAfterMaxSeconds) }

// QueuedTTL is how long a job may stay unfinished.
func (c *Config) QueuedTTL() time.Duration { return seconds(c.QueuedTTLSeconds) }

// CompletedTTL is how long a completed job is kept.
func (c *Config) CompletedTTL() time.Duration { return seconds(c.CompletedTTLSeconds) }

// FailedTTL is how long a failed job is kept.
func (c *Config) FailedTTL() time.Duration { return seconds(c.FailedTTLSeconds) }

// StreamDeliveryWait is how long a finished job waits for a stream to take its result.
func (c *Config) StreamDeliveryWait() time.Duration { return milliseconds(c.StreamDeliveryWaitMS) }

// StreamMax is the longest life of a stream.
func (c *Config) StreamMax() time.Duration { return seconds(c.StreamMaxSeconds) }

// ShutdownTimeout bounds the whole shutdown.
func (c *Config) ShutdownTimeout() time.Duration { return seconds(c.ShutdownTimeoutSeconds) }

// ShutdownQuiesce is how long the API answers while it refuses new jobs.
func (c *Config) ShutdownQuiesce() time.Duration { return milliseconds(c.ShutdownQuiesceMS) }

// Level is LogLevel for package slog.
func (c *Config) Level() slog.Level {
	switch c.LogLevel {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
