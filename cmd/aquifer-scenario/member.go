package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// member is a node that can be started again on its data. Each of its addresses has a door, or another one
// could reach it past the faults.
type member struct {
	id     place
	path   string // of the program
	dir    string
	listen string // where it listens itself
	bind   string // where it listens for gossip itself
	peers  string // where the others reach it
	gossip string // where the others reach its gossip
	calls  string // where clients reach it
	env    map[string]string
	http   *http.Client

	doors []*door
	air   *air // nil before it is open

	// mu guards proc: faults end and start it while connections are being looked up.
	mu   sync.Mutex
	proc *child.Process // nil while it is down
}

// Bounds of a start and of an ordered stop; the node is told to take 20 s at most.
const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

func (m *member) data() string { return filepath.Join(m.dir, "db") }

// running returns the process; nil while there is none.
func (m *member) running() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

// start runs the node, opens its doors and waits until it is ready.
func (m *member) start(ctx context.Context) error {
	env := make([]string, 0, len(m.env))
	for _, name := range slices.Sorted(maps.Keys(m.env)) {
		env = append(env, name+"="+m.env[name])
	}
	p, err := child.Start(child.Program{Name: string(m.id), Path: m.path, Dir: m.dir, Env: env})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.proc = p
	m.mu.Unlock()
	for _, d := range m.doors {
		if err := d.open(); err != nil {
			return err
		}
	}
	return p.Await(ctx, startTimeout, func(ctx context.Context) bool { return answers(ctx, m.http, "http://"+m.listen+"/ready") })
}

// kill ends the node as a crash would. It does nothing if it is down.
func (m *member) kill() {
	if p := m.down(); p != nil {
		p.Kill()
		m.shut()
	}
}

// terminate ends the node as an operator does.
func (m *member) terminate() error {
	p := m.running()
	if p == nil {
		return nil
	}
	// The doors follow the node's own: whoever comes after it has closed its port is refused.
	var doors sync.WaitGroup
	doors.Go(func() {
		_ = p.Await(context.Background(), stopTimeout, func(ctx context.Context) bool { return !m.listens(ctx) })
		m.shut()
	})
	err := p.Terminate(stopTimeout)
	m.down()
	doors.Wait()
	return err
}

func (m *member) down() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.proc
	m.proc = nil
	return p
}

func (m *member) shut() {
	for _, d := range m.doors {
		d.close()
	}
}

// freeze stops the node as SIGSTOP does: it is there and does not answer. thaw ends that.
func (m *member) freeze() error { return m.signal(syscall.SIGSTOP) }
func (m *member) thaw() error   { return m.signal(syscall.SIGCONT) }

func (m *member) signal(s os.Signal) error {
	if p := m.running(); p != nil {
		return p.Signal(s)
	}
	return fmt.Errorf("%s is down", m.id)
}

// settings is the environment that all nodes have in common, by name.
func (m *member) settings(durability string) map[string]string {
	env := map[string]string{
		"AQUIFER_LISTEN":                   m.listen,
		"DB_PATH":                          m.data(),
		"CONFIG_PATH":                      filepath.Join(m.dir, "config.yaml"),
		"AQUIFER_LOG":                      "json",
		"AQUIFER_ATTEMPT_TIMEOUT_SECONDS":  "30",
		"AQUIFER_SHUTDOWN_QUIESCE_MS":      "1000",
		"AQUIFER_SHUTDOWN_TIMEOUT_SECONDS": "20",
		"AQUIFER_CLUSTER_ENABLED":          "true",
		"AQUIFER_CLUSTER_SELF_ID":          string(m.id),
		"AQUIFER_CLUSTER_SELF_ADDR":        "http://" + m.peers,
		"AQUIFER_PEER_SECRET":              "a secret of the chaos program",
	}
	if durability == durabilitySync {
		env["AQUIFER_PEBBLE_FLUSH_INTERVAL_MS"] = "0"
	}
	return env
}

// rates is a pace that holds nothing back.
const rates = "defaults:\n  rps: 5000\n  max_concurrent: 256\n"

func (m *member) prepare() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("directory of %s: %w", m.id, err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "config.yaml"), []byte(rates), 0o600); err != nil {
		return fmt.Errorf("configuration of %s: %w", m.id, err)
	}
	return nil
}

// provider adds what the nodes need to know of each other.
type provider func(m *member, all []*member, valkeyURL string)

func providers() map[string]provider {
	return map[string]provider{
		"static": func(m *member, all []*member, _ string) {
			m.env["AQUIFER_CLUSTER_MEMBERS"] = listOf(all, func(o *member) string { return string(o.id) + "=http://" + o.peers })
		},
		"gossip": func(m *member, all []*member, _ string) {
			m.env["AQUIFER_CLUSTER_GOSSIP_BIND"] = m.bind
			m.env["AQUIFER_CLUSTER_GOSSIP_ADVERTISE"] = m.gossip
			m.env["AQUIFER_CLUSTER_GOSSIP_KEY"] = "MDEyMzQ1Njc4OWFiY2RlZg=="
			m.env["AQUIFER_CLUSTER_JOIN"] = listOf(all, func(o *member) string { return o.gossip })
		},
		"valkey": func(m *member, _ []*member, url string) {
			m.env["AQUIFER_CLUSTER_VALKEY_URL"] = url
			m.env["AQUIFER_CLUSTER_HEARTBEAT_SECONDS"] = "1"
			m.env["AQUIFER_CLUSTER_INSTANCE_TTL_SECONDS"] = "5"
			m.env["AQUIFER_REMOTE_IDEMPOTENCY_ENABLED"] = "true"
			// A Valkey that only waits for a core is not what is tested: without its word, nodes decide alone.
			m.env["AQUIFER_CLUSTER_VALKEY_TIMEOUT_MS"] = "250"
			m.env["AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS"] = "250"
		},
	}
}

// instanceTTL is that of the nodes with Valkey, as above.
const instanceTTL = 5 * time.Second

func listOf(all []*member, text func(*member) string) string {
	list := make([]string, 0, len(all))
	for _, m := range all {
		list = append(list, text(m))
	}
	return strings.Join(list, ",")
}
