package client

import (
	"context"
	"net/http"
)

// Health is how a node is.
type Health struct {
	Status    string    `json:"status"` // ok or draining
	Admission Admission `json:"admission"`
	Queues    Queues    `json:"queues"`
	Cluster   *Cluster  `json:"cluster,omitzero"` // nil for a node that is in none
}

// Admission is what a node reads before it takes new work, and where it stops. A limit of 0 is off.
type Admission struct {
	Enabled           bool  `json:"enabled"`
	MemoryMB          int64 `json:"memory_mb"`
	MemoryReservedMB  int64 `json:"memory_reserved_mb"`
	MemoryLimitMB     int64 `json:"memory_limit_mb"`
	DBBytes           int64 `json:"db_bytes"`
	DBMaxBytes        int64 `json:"db_max_bytes"`
	MaxBodyBytes      int64 `json:"max_body_bytes"`
	RetryAfterSeconds int64 `json:"retry_after_seconds"`
	SyncLagMS         int64 `json:"sync_lag_ms"`
}

// Queues are the lanes of all targets together.
type Queues struct {
	Active            int     `json:"active"`
	Backlog           int64   `json:"backlog"`
	AdmissionPressure float64 `json:"admission_pressure"`
}

// Health asks how the node is.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	_, err := c.call(ctx, request{method: http.MethodGet, path: "/health"}, &h)
	return h, err
}

// Ready returns nil if the node takes new work.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.call(ctx, request{method: http.MethodGet, path: "/ready"}, &struct{}{})
	return err
}
