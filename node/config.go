package node

import (
	"log/slog"
	"time"
)

// Config is everything an operator can set. The tags are the reference: env is the variable, envDefault
// its default, default a default that is worked out at the start, unit, min, max and oneof what it may
// be, doc what it does; section heads the part of the reference that starts there. A field of type
// AutoInt may be "auto". A field tagged secret is never shown.
//
// FromEnv makes one; the zero Config is not valid.
type Config struct {
	Listen     string `section:"Node" env:"AQUIFER_LISTEN" default:":$PORT" unit:"host:port" doc:"Where the API listens."`
	Port       int    `env:"PORT" envDefault:"8080" min:"1" max:"65535" doc:"Port of the API when AQUIFER_LISTEN is not set."`
	NodeID     string `env:"AQUIFER_NODE_ID" default:"FLY_MACHINE_ID, else the host name" doc:"Name of this node. Targets see it as X-Aqueduct-Node-Id, and job ids carry a tag of it."`
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
	FlushIntervalMS   int `env:"AQUIFER_PEBBLE_FLUSH_INTERVAL_MS" envDefault:"100" unit:"ms" min:"0" max:"60000" doc:"Time between background syncs, and so what a power cut can take; the death of the process takes nothing. 0 makes every write wait for its sync."`
	CacheMB           int `env:"AQUIFER_PEBBLE_CACHE_MB" envDefault:"64" unit:"MB" min:"1" max:"65536" doc:"Block cache."`
}

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
