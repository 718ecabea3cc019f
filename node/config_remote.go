package node

import (
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/drain"
)

// claims says whether a key is one job in the whole region. A node that tells Valkey what keys became asks it, too.
func (c *Config) claims() bool { return c.Remote.IdempotencyEnabled || c.Drain.toValkey() }

// shares says whether the nodes of the region remember anything together.
func (c *Config) shares() bool { return c.claims() || c.Remote.ResultEnabled }

// Timeout is how long a caller waits for Valkey at most.
func (r RemoteConfig) Timeout() time.Duration { return milliseconds(r.TimeoutMS) }

// TTL is how long an ended job's key and result are kept.
func (r RemoteConfig) TTL() time.Duration { return seconds(r.TTLSeconds) }

// remoteProblems lists what keeps the nodes of a region from remembering anything together.
func (c *Config) remoteProblems() []Problem {
	if !c.shares() {
		return nil
	}
	if c.Valkey.URL == "" {
		const otherwise = " as long as AQUIFER_VALKEY_URL is not set"
		switch {
		case c.Remote.IdempotencyEnabled:
			return []Problem{{Name: "AQUIFER_REMOTE_IDEMPOTENCY_ENABLED", Rule: "false" + otherwise, Value: "true"}}
		case c.Remote.ResultEnabled:
			return []Problem{{Name: "AQUIFER_REMOTE_RESULT_ENABLED", Rule: "false" + otherwise, Value: "true"}}
		}
		return []Problem{{Name: "AQUIFER_DRAIN_SINK", Rule: drain.SinkWebhook + otherwise, Value: c.Drain.Sink}}
	}
	if err := link.Check(c.Valkey.URL); err != nil {
		return []Problem{{Name: "AQUIFER_VALKEY_URL", Err: err}}
	}
	return nil
}
