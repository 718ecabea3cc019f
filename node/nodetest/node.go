package nodetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/logbook"
)

// Node is one node of a fleet: its machine and disk, which stay, and the process on them, which comes and
// goes. It belongs to the goroutine of its test, except that Kill may be called from anywhere.
type Node struct {
	Name    string
	Machine *Machine
	Disk    *Disk
	// KeepsWork says that the scenario ends with work left, so that the queues need not be empty.
	KeepsWork bool
	// MayFail says that errors in the log are part of the scenario.
	MayFail bool

	fleet  *Fleet
	cfg    node.Config
	client *client.Client

	mu      sync.Mutex // guards what follows, as Kill comes from anywhere
	process *process   // nil: none is running
	last    *process   // the last that was started
	dead    []*process // those that were killed
}

// process is one run of a node.
type process struct {
	node     *node.Node
	registry *prometheus.Registry
	log      *logbook.Book
	cancel   context.CancelFunc
	done     chan struct{} // closed when Run has returned
	err      error         // of Run; set before done is closed
}

// Running reports whether the node has a process.
func (n *Node) Running() bool { return n.now() != nil }

// now is the process that is running.
func (n *Node) now() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// swap makes p the process that is running, and returns the one before.
func (n *Node) swap(p *process) *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.process
	if n.process = p; p != nil {
		n.last = p
	}
	return old
}

// Start starts a process and waits until it serves.
func (n *Node) Start() {
	n.fleet.t.Helper()
	if err := n.TryStart(); err != nil {
		n.fleet.t.Fatalf("%s does not start: %v", n.Name, err)
	}
}

// TryStart is Start for a node that may not.
func (n *Node) TryStart() error {
	n.Machine.boot()
	onNet := n.Machine.Process()
	p := &process{registry: prometheus.NewRegistry(), log: &logbook.Book{}, done: make(chan struct{})}
	made, err := node.New(n.cfg, node.Deps{
		Listen: onNet.Listen, Dial: onNet.Dial, Gossip: n.fleet.Gossip.Host(n.Machine.addr), FS: n.Disk.FS(), Registry: p.registry, Logger: p.log.Logger(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.node, p.cancel = made, cancel
	n.swap(p) // at once: a target may kill it before it is ready
	go func() {
		defer close(p.done)
		p.err = made.Run(ctx)
	}()
	select {
	case <-made.Ready():
		time.Sleep(time.Millisecond) // the clock moves when all that Run has started is at work
		return nil
	case <-p.done:
	}
	if n.now() != p {
		return nil // killed meanwhile
	}
	n.swap(nil)
	return errors.Join(errors.New("the node has ended"), p.err)
}

// Stop stops the node the graceful way, and returns how long that took.
func (n *Node) Stop() time.Duration {
	n.fleet.t.Helper()
	start := time.Now()
	n.Leave()
	return n.Left(start)
}

// Leave tells the node to stop and does not wait; Left waits.
func (n *Node) Leave() { n.now().cancel() }

// Left waits until the node has stopped, checks what it leaves, and returns how long it took since
// start.
func (n *Node) Left(start time.Time) time.Duration {
	n.fleet.t.Helper()
	p := n.now()
	<-p.done
	took := time.Since(start)
	n.swap(nil)
	if p.err != nil {
		n.fleet.t.Errorf("%s stopped with an error: %v", n.Name, p.err)
	}
	n.check(p)
	return took
}

// Fallen waits until the node has ended by itself, and returns its error.
func (n *Node) Fallen() error {
	n.fleet.t.Helper()
	p := n.now()
	select {
	case <-p.done:
	case <-time.After(time.Hour):
		n.fleet.t.Fatalf("%s is still running", n.Name)
	}
	n.swap(nil)
	return p.err
}

// Kill ends the node at this moment: what it does from now on nobody sees, neither on its disk nor on the
// network. The next Start finds what the death has left. It may be called from a Tap or a Server's
// answer, and does nothing to a node that is not running.
func (n *Node) Kill(by Death) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return
	}
	onNet := n.Machine.Process()
	onNet.freeze()
	n.fleet.Gossip.Crash(n.Machine.addr)
	n.Disk.crash(by)
	onNet.end(by != ProcessDeath)
	n.process.cancel() // it ends among itself
	n.dead = append(n.dead, n.process)
	n.process = nil
}

// Configure changes the configuration for the next Start.
func (n *Node) Configure(edit func(*node.Config)) { edit(&n.cfg) }

// URL is where the node serves.
func (n *Node) URL() string { return "http://" + n.Machine.name }

// Client is a client of the node on a machine of its own.
func (n *Node) Client() *client.Client { return n.client }

// Log returns the lines that the last process has logged, with their data, also when it has stopped.
func (n *Node) Log() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last.log.Lines()
}

// Gauge returns the sum of a metric of the running process over all its labels: of a gauge or counter
// the value, of a histogram the count.
func (n *Node) Gauge(name string) float64 {
	families, err := n.now().registry.Gather()
	if err != nil {
		n.fleet.t.Errorf("metrics of %s: %v", n.Name, err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return sum(f)
		}
	}
	return 0
}

func sum(f *dto.MetricFamily) (total float64) {
	for _, m := range f.GetMetric() {
		total += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// WaitIdle waits until the node has no unfinished work: no job, no delivery.
func (n *Node) WaitIdle() {
	n.fleet.t.Helper()
	n.fleet.Until(48*time.Hour, n.Name+" idle", func() bool { return n.Gauge("aquifer_queue_backlog") == 0 })
}

// levels are gauges that show how much there is of something that stays.
func levels() map[string]bool {
	return map[string]bool{
		"aquifer_store_bytes": true, "aquifer_wal_sync_lag_seconds": true, "aquifer_store_disk_full": true,
		"aquifer_target_rps": true, "aquifer_target_rps_configured": true,
		"aquifer_target_max_concurrent": true, "aquifer_target_max_concurrent_configured": true,
		"aquifer_inbound_rps": true, "aquifer_inbound_callers": true, "aquifer_cluster_pruned_members": true,
		"aquifer_cluster_sharers":                       true,
		"aquifer_cluster_stale_since_timestamp_seconds": true, "aquifer_gossip_strain": true, "aquifer_gossip_unreadable_members": true,
		"aquifer_registry_last_ok_timestamp_seconds": true,
	}
}

// work are the gauges of what may be left for the next process.
func work() map[string]bool {
	return map[string]bool{
		"aquifer_queue_backlog": true, "aquifer_queue_waiting": true, "aquifer_queue_targets": true,
		"aquifer_queue_lanes": true, "aquifer_queue_held_bytes": true,
		"aquifer_target_backlog": true, "aquifer_tenant_backlog": true, "aquifer_handoff_jobs_in_doubt": true,
	}
}

// check fails the test for what a process that has stopped has left.
func (n *Node) check(p *process) {
	n.fleet.t.Helper()
	if n.fleet.t.Failed() {
		return // the scenario has not come to its end
	}
	families, err := p.registry.Gather()
	if err != nil {
		n.fleet.t.Errorf("metrics of %s: %v", n.Name, err)
	}
	for _, f := range families {
		name := f.GetName()
		if f.GetType() != dto.MetricType_GAUGE || levels()[name] || (n.KeepsWork && work()[name]) {
			continue
		}
		if v := sum(f); v != 0 {
			n.fleet.t.Errorf("%s has stopped with %s at %v", n.Name, name, v)
		}
	}
	if failed := p.log.Failures(); len(failed) > 0 && !n.MayFail {
		n.fleet.t.Errorf("%s logged errors:\n%v", n.Name, failed)
	}
}

// close ends the node with its test.
func (n *Node) close() {
	if p := n.now(); p != nil {
		n.dump(p)
		n.Stop()
	}
	for _, p := range n.dead {
		n.dump(p)
		<-p.done
	}
}

// dump shows the log of a process if the test has failed.
func (n *Node) dump(p *process) {
	if n.fleet.t.Failed() {
		n.fleet.t.Logf("log of %s:\n%s", n.Name, fmt.Sprint(p.log))
	}
}
