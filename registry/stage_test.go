package registry_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/registry"
	"github.com/aquifer-fleet/aquifer/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	controlPlane = "10.0.0.1:8080"
	nodeIP       = "10.0.0.2"
	node         = "10.0.0.2:7000" // as registered
)

// stage is a node's registration and its control plane, in virtual time.
type stage struct {
	*testing.T
	net     *network
	canalis *registrytest.Canalis
	down    func() // ends the control plane
	reg     *registry.Registration
	metrics *prometheus.Registry
	log     *logs
	end     context.CancelFunc
	ended   chan struct{} // closed when Run has returned
}

// play plays a scene with a node that runs.
func play(t *testing.T, scene func(s *stage), changes ...func(*registry.Config)) {
	t.Helper()
	rehearse(t, func(s *stage) {
		s.run()
		synctest.Wait()
		scene(s)
	}, changes...)
}

// rehearse plays a scene with a node that does not run yet.
func rehearse(t *testing.T, scene func(s *stage), changes ...func(*registry.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, net: newNetwork(), metrics: prometheus.NewRegistry(), log: &logs{}, end: func() {}}
		s.canalis = registrytest.NewCanalis(s.net.transport(t, "10.0.0.1"))
		t.Cleanup(s.canalis.Close)
		s.up()
		s.reg = s.build(changes...)
		scene(s)
		s.stop()
	})
}

// up starts the control plane.
func (s *stage) up() { s.down = s.net.serve(s.T, controlPlane, s.canalis) }

func (s *stage) build(changes ...func(*registry.Config)) *registry.Registration {
	s.Helper()
	c := registry.Config{
		URL: "http://" + controlPlane + "/register", Port: "7000", Transport: s.net.transport(s.T, nodeIP),
		Logger: slog.New(slog.NewTextHandler(s.log, nil)), Registerer: s.metrics,
	}
	for _, change := range changes {
		change(&c)
	}
	r, err := registry.New(c)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// run has the node registered until stop.
func (s *stage) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.end, s.ended = cancel, ended
	go func() {
		defer close(ended)
		if err := s.reg.Run(ctx); err != nil {
			s.Errorf("run: %v", err)
		}
	}()
}

// stop ends the registration and returns how long that took.
func (s *stage) stop() time.Duration {
	start := time.Now()
	s.end()
	if s.ended != nil {
		<-s.ended
	}
	return time.Since(start)
}

// live reports whether the node is registered, and it alone.
func (s *stage) live() bool { return slices.Equal(s.canalis.Instances(), []string{node}) }

func (s *stage) states(want ...registry.State) {
	s.Helper()
	if got := s.canalis.States(); !slices.Equal(got, want) {
		s.Errorf("told %v, want %v", got, want)
	}
}

// gaps are the times between the pings since the n-th.
func (s *stage) gaps(n int) []time.Duration {
	var list []time.Duration
	pings := s.canalis.Pings()[n:]
	for i := 1; i < len(pings); i++ {
		list = append(list, pings[i].At.Sub(pings[i-1].At))
	}
	return list
}

// counted checks a metric of pings.
func (s *stage) counted(state registry.State, result string, want float64) {
	s.Helper()
	got := 0.0
	families, err := s.metrics.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "aquifer_registry_pings_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == result && l[1].GetValue() == string(state) {
				got = m.GetCounter().GetValue()
			}
		}
	}
	if got != want {
		s.Errorf("counted %v pings %s %s, want %v", got, state, result, want)
	}
}

// logs is a log that may be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}
