package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/cmd/port"
)

// TestClusterExamples does what a reader of the cluster's document does with the three nodes that it starts. They are
// the fleet of compose.yaml, too: docker compose can only restart one here.
func TestClusterExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the examples are curl commands, and there is no curl here")
	}
	text, err := os.ReadFile("../../cluster/README.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newExampleFleet(t, string(text))
	r := &reader{
		t: t, world: newExampleWorld(t), names: f.names, orders: f.orders, env: []string{"FLEET=" + f.door.URL},
		url: f.nodes[0].url, ids: map[string]string{},
	}
	r.readAll(string(text))
}

// exampleFleet is three nodes, what they call, and whom they tell.
type exampleFleet struct {
	t      *testing.T
	names  []alias
	envs   [][]string
	nodes  []*child
	door   *httptest.Server // takes orders
	orders chan func()
}

func newExampleFleet(t *testing.T, document string) *exampleFleet {
	t.Helper()
	f := &exampleFleet{t: t, orders: make(chan func())}
	for _, name := range []string{"target", "receiver", "localhost"} {
		sink := start(t, (*exec.Cmd).StderrPipe, nil, "sink", "--listen", "127.0.0.1:0", "--delay", "50ms")
		f.names = append(f.names, alias{name + ":9000", strings.TrimPrefix(sink.line("listening on "), "listening on ")})
	}
	pace := filepath.Join(t.TempDir(), "targets.yaml")
	const config = "defaults: {rps: 200, max_concurrent: 20}\nwebhooks: {rps: 200, max_concurrent: 20}\n"
	if err := os.WriteFile(pace, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, a := range freeAddresses(t, 3) {
		f.names = append(f.names, alias{fmt.Sprintf("localhost:808%d", i+1), a})
	}
	for _, env := range f.documented(document) {
		env = append(env, "CONFIG_PATH="+pace)
		f.envs = append(f.envs, env)
		f.nodes = append(f.nodes, serve(t, env...))
	}
	f.door = httptest.NewServer(http.HandlerFunc(f.takeOrder))
	t.Cleanup(f.door.Close)
	return f
}

// startsNode ends a line of a document that starts a node.
const startsNode = " aquifer &\n"

// documented are the settings of the nodes that the document starts first, as they are here.
func (f *exampleFleet) documented(document string) (envs [][]string) {
	f.t.Helper()
	here := (&reader{names: f.names}).here(document)
	var all []string
	for _, b := range blocksOf(here) {
		if len(envs) > 0 {
			break // the others gossip
		}
		for line := range strings.Lines(b.text) {
			if settings, ok := strings.CutPrefix(line, "export "); ok {
				all = append(all, strings.Fields(settings)...)
			} else if settings, ok := strings.CutSuffix(line, startsNode); ok {
				own := strings.Replace(settings, "DB_PATH=", "DB_PATH="+f.t.TempDir()+"/", 1)
				envs = append(envs, append(strings.Fields(own), all...))
			}
		}
	}
	if len(envs) != 3 {
		f.t.Fatalf("the document starts %d nodes, want 3", len(envs))
	}
	return envs
}

// takeOrder has the goroutine of the test restart a node.
func (f *exampleFleet) takeOrder(w http.ResponseWriter, r *http.Request) {
	var i int
	if _, err := fmt.Sscanf(r.URL.Path, "/restart/gossip-%d", &i); err != nil || i < 1 || i > len(f.nodes) {
		http.Error(w, "no such order", http.StatusNotFound)
		return
	}
	done := make(chan struct{})
	order := func() {
		defer close(done)
		f.nodes[i-1].signal(syscall.SIGTERM)
		if code := f.nodes[i-1].wait(); code != 0 {
			f.t.Errorf("node-%d ends with %d", i, code)
		}
		f.nodes[i-1] = serve(f.t, f.envs[i-1]...)
	}
	select {
	case f.orders <- order:
		<-done
	case <-r.Context().Done(): // the test is over
	}
}

// freeAddresses returns addresses at which nobody listens, nor will while a node restarts.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		var err error
		if list[i], err = port.Take(); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
