package events

import "github.com/aquifer-fleet/aquifer/node/job"

// The names of the events.
const (
	NameQueued        = "queued"
	NameDispatching   = "dispatching"
	NamePosition      = "position"
	NameRetrying      = "retrying"
	NameCompleted     = "completed"
	NameFailed        = "failed"
	NameGap           = "gap"
	NameClosing       = "closing"
	NameRerouted      = "rerouted"
	NameProxyFallback = "proxy_fallback"
)

// The data of the events. Fields stand in the order of their keys, which is how they are written.
type (
	// QueuedData belongs to NameQueued.
	QueuedData struct {
		JobID  string     `json:"job_id"`
		Status job.Status `json:"status"`
	}
	// DispatchingData belongs to NameDispatching.
	DispatchingData struct {
		Attempt int    `json:"attempt"` // from 1
		JobID   string `json:"job_id"`
	}
	// PositionData belongs to NamePosition.
	PositionData struct {
		ETAMS    *int64 `json:"eta_ms,omitempty"` // estimated, until its turn; absent while nobody can tell
		JobID    string `json:"job_id"`
		Position int    `json:"position"` // 1: next, 1000: that one or any behind it
	}
	// RetryingData belongs to NameRetrying.
	RetryingData struct {
		Attempt        int    `json:"attempt"` // attempts failed so far
		JobID          string `json:"job_id"`
		MaxRetries     int    `json:"max_retries"` // -1: until success
		Reason         string `json:"reason"`
		ResponseStatus int    `json:"response_status"` // 0: no answer
		RetryAt        int64  `json:"retry_at"`        // Unix ms
	}
	// CompletedData belongs to NameCompleted.
	CompletedData struct {
		job.Shown
		JobID          string `json:"job_id"`
		ResponseStatus int    `json:"response_status"`
	}
	// FailedData belongs to NameFailed.
	FailedData struct {
		Attempts int `json:"attempts"`
		job.Shown
		JobID          string `json:"job_id"`
		Reason         string `json:"reason"`
		ResponseStatus int    `json:"response_status"` // 0: no answer
	}
	// DroppedData belongs to NameFailed when the node gave the job up; see job.State.Dropped.
	DroppedData struct {
		JobID  string `json:"job_id"`
		Reason string `json:"reason"`
	}
	// GapData belongs to NameGap.
	GapData struct {
		// Oldest is the id of the next event; every one from it on follows.
		Oldest int       `json:"oldest"`
		Reason GapReason `json:"reason"`
	}
	// ClosingData belongs to NameClosing.
	ClosingData struct {
		Reason ClosingReason `json:"reason"`
	}
	// ReroutedData belongs to NameRerouted.
	ReroutedData struct {
		Region string `json:"region"`
	}
	// ProxyFallbackData belongs to NameProxyFallback.
	ProxyFallbackData struct {
		JobID          string `json:"job_id"`
		Reason         string `json:"reason"`
		UpstreamStatus int    `json:"upstream_status,omitzero"`
	}
)

// GapReason says why events are missing. The set is closed.
type GapReason string

// The reasons of a gap.
const (
	GapTrimmed    GapReason = "trimmed"     // they are no longer kept
	GapUnknown    GapReason = "unknown"     // the job has no event of the id that was asked for
	GapFuture     GapReason = "future"      // the job has not got as far as the id that was asked for
	GapMalformed  GapReason = "malformed"   // what was asked for is not an id
	GapSlowReader GapReason = "slow_reader" // the listener did not take them in time
)

// ClosingReason says why the server ends a stream early. The set is closed.
type ClosingReason string

// The reasons of a closing.
const (
	ClosingShutdown  ClosingReason = "shutdown"   // the node stops
	ClosingLifeLimit ClosingReason = "life_limit" // the stream has been open as long as one may
)
