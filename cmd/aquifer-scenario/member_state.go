package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// listens reports whether the node takes connections.
func (m *member) listens(ctx context.Context) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", m.listen)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// sees returns the members that the node knows of and that do not drain.
func (m *member) sees(ctx context.Context) (map[place]bool, error) {
	var health struct {
		Cluster struct {
			Nodes []struct {
				ID    place  `json:"id"`
				State string `json:"state"`
			} `json:"nodes"`
		} `json:"cluster"`
	}
	if err := m.read(ctx, "/health", &health); err != nil {
		return nil, err
	}
	seen := make(map[place]bool)
	for _, n := range health.Cluster.Nodes {
		if n.State == "" || n.State == "active" {
			seen[n.ID] = true
		}
	}
	return seen, nil
}

// unfinished is how many jobs the node has that have not ended, 100 at most.
func (m *member) unfinished(ctx context.Context) (int, error) {
	var page struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	err := m.read(ctx, "/jobs?status=queued&limit=100", &page)
	return len(page.Jobs), err
}

// read gets something past all faults.
func (m *member) read(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.listen+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", m.id, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("answer of %s to %s, %d: %w", m.id, path, resp.StatusCode, err)
	}
	return nil
}
