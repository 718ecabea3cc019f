package api

import "net/http"

// Health is what GET /health shows.
type Health struct {
	Status    string    `json:"status"` // ok or draining
	Admission Admission `json:"admission"`
	Queues    Queues    `json:"queues"`
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
	Active            int     `json:"active"`  // lanes with work
	Backlog           int64   `json:"backlog"` // unfinished jobs
	AdmissionPressure float64 `json:"admission_pressure"`
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
