package api

import "net/http"

// Health is what GET /health shows.
type Health struct {
	Status    string    `json:"status"` // ok or draining
	Admission Admission `json:"admission"`
	Queues    Queues    `json:"queues"`
	Inbound   *Inbound  `json:"inbound,omitempty"` // nil while callers are not told a rate
	Cluster   any       `json:"cluster,omitempty"` // as the cluster shows itself; nil for a node that is in none
	Drain     any       `json:"drain,omitempty"`   // as the hand-over shows itself; nil for a node that has none
}

// Admission is what the node watches before it takes new work.
type Admission struct {
	Enabled bool `json:"enabled"`
	// Readings are nil if nothing is watched.
	*Readings
}

// Readings are what admission reads and where it stops.
type Readings struct {
	MemoryMB          int64 `json:"memory_mb"`
	MemoryReservedMB  int64 `json:"memory_reserved_mb"`
	MemoryLimitMB     int64 `json:"memory_limit_mb"` // 0: off, as in all limits
	DBBytes           int64 `json:"db_bytes"`
	DBMaxBytes        int64 `json:"db_max_bytes"`
	MaxBodyBytes      int64 `json:"max_body_bytes"`
	RetryAfterSeconds int64 `json:"retry_after_seconds"`
	SyncLagMS         int64 `json:"sync_lag_ms"`
}

// Queues are the lanes of all targets together.
type Queues struct {
	Active            int     `json:"active"`             // lanes with work
	Backlog           int64   `json:"backlog"`            // unfinished jobs
	AdmissionPressure float64 `json:"admission_pressure"` // of the fullest target
}

// Inbound is the rate that callers are told, and why.
type Inbound struct {
	AdvertisedRPS    float64 `json:"advertised_rps"` // for all callers together
	PerCallerRPS     float64 `json:"per_caller_rps"`
	ActiveCallers    int     `json:"active_callers"`
	InsertsPerSec    float64 `json:"inserts_per_sec"`
	P95InsertMS      float64 `json:"p95_insert_ms"`
	BaselineInsertMS float64 `json:"baseline_insert_ms"`
	BenchmarkRPS     float64 `json:"benchmark_rps"`
	ThresholdRPS     float64 `json:"threshold_rps"`
	ServerBacklog    int     `json:"server_backlog"` // accepted and not dispatched
	Cuts             int     `json:"cuts"`
	Raises           int     `json:"raises"`
	LastAdjustment   string  `json:"last_adjustment"`
}

// health says how the node is. It answers 200 as long as the process can answer at all.
func (f *face) health(w http.ResponseWriter, _ *http.Request) int {
	h := f.Health()
	h.Status = "ok"
	if f.Draining() {
		h.Status = "draining"
	}
	return writeJSON(w, http.StatusOK, h)
}

type readiness struct {
	Status string `json:"status"`
}

// ready says whether new work should come here.
func (f *face) ready(w http.ResponseWriter, r *http.Request) int {
	err := f.drainingFault()
	if err == nil {
		err = f.Ready()
	}
	if err != nil {
		return f.fail(w, r, err)
	}
	return writeJSON(w, http.StatusOK, readiness{"ready"})
}
