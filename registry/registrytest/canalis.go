// Package registrytest is a double of Canalis, the control plane, for tests of nodes that stand behind it:
// it takes registrations, forgets them when they are not renewed, and gives each tenant a node of its own.
//
// It does what Canalis of September 2026 does on POST /register, /jobs and /proxy, its faults included:
// the state in a ping means nothing to it, an assignment is for good, and IPv6 addresses stand without
// brackets. It keeps everything in memory, and sends a backlog one job at a time.
package registrytest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/registry"
)

// Ping is a report of a node.
type Ping struct {
	At      time.Time
	Address string // the source's IP, a colon, and the port in the body
	Body    string // as it came
	Header  http.Header
	State   registry.State // as told in the body
	// Taken is false if the double lost it on purpose, see Break.
	Taken bool
}

// Canalis is the double, as a handler. Its methods are safe for concurrent use. Time is that of package
// time, so that a bubble of testing/synctest makes it virtual.
//
// mu guards all that follows it.
type Canalis struct {
	mux     *http.ServeMux
	nodes   http.RoundTripper
	backlog sync.WaitGroup

	mu          sync.Mutex
	fault       Fault
	pings       []Ping
	instances   map[string]time.Time // address to expiry
	lapses      int
	free        []string
	assigned    map[string]bool
	assignments map[string]string // tenant to address
	pending     map[string][]*waiting
	tenants     []string // that are pending, in their order
}

// NewCanalis returns a double that calls nodes over a transport. Close it at the end.
func NewCanalis(nodes http.RoundTripper) *Canalis {
	c := &Canalis{
		mux: http.NewServeMux(), nodes: nodes, instances: make(map[string]time.Time), assigned: make(map[string]bool),
		assignments: make(map[string]string), pending: make(map[string][]*waiting),
	}
	c.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	c.mux.HandleFunc("POST /register", c.register)
	c.mux.HandleFunc("POST /jobs", c.serve)
	c.mux.HandleFunc("POST /proxy", c.serve)
	return c
}

// ServeHTTP answers as Canalis does.
func (c *Canalis) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// Close waits until no backlog is being sent any more.
func (c *Canalis) Close() { c.backlog.Wait() }

// Pings lists what came to /register, also what it lost or could not read.
func (c *Canalis) Pings() []Ping {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pings)
}

// States lists the states that it took, without repetitions in a row.
func (c *Canalis) States() []registry.State {
	var list []registry.State
	for _, p := range c.Pings() {
		if p.Taken {
			list = append(list, p.State)
		}
	}
	return slices.Compact(list)
}

// Instances lists the addresses that are registered now, sorted.
func (c *Canalis) Instances() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for address, expiry := range c.instances {
		if time.Now().Before(expiry) {
			list = append(list, address)
		}
	}
	slices.Sort(list)
	return list
}

// Lapses is how often a node came back after its registration had lapsed.
func (c *Canalis) Lapses() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lapses
}

// Forget drops every registration, as a jump of the store's clock does.
func (c *Canalis) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.instances)
}

// register takes a ping: both of its fields must be texts.
func (c *Canalis) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in struct {
		Port       *string        `json:"port"`
		ReportedAt *string        `json:"reported_at"`
		State      registry.State `json:"state"`
	}
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	p := Ping{At: time.Now(), Body: string(body), Header: r.Header, State: in.State}
	readable := err == nil && in.Port != nil && in.ReportedAt != nil
	if readable {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		p.Address = host + ":" + *in.Port
		p.Taken = fault.Answer == nil || fault.Lands
	}
	c.take(p)
	switch {
	case fault.Answer != nil:
		fault.Answer(w, r)
	case !readable:
		http.Error(w, "port and reported_at must be texts", http.StatusBadRequest)
	}
}

// take records a ping, and gives a node that is free to those who wait for one.
func (c *Canalis) take(p Ping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings = append(c.pings, p)
	if !p.Taken {
		return
	}
	if expiry, known := c.instances[p.Address]; known && !p.At.Before(expiry) {
		c.lapses++
	}
	c.instances[p.Address] = p.At.Add(registry.Expiry)
	if !c.assigned[p.Address] && !slices.Contains(c.free, p.Address) {
		c.free = append(c.free, p.Address)
	}
	c.relieve()
}
