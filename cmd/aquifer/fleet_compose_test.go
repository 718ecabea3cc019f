//go:build compose

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

var composeCommand = flag.String("compose", "docker compose", "how Docker Compose is called here")

// project separates the fleet of the test from one that a user has started from the same file.
const project = "aquifer-e2e"

// fleet is what compose.yaml starts with one profile. One goroutine has it; its clients may be used by all.
type fleet struct {
	t       *testing.T
	profile string
	env     []string          // of Docker Compose
	ids     map[string]string // of the containers, by service
	nodes   []*client.Client
	kills   []kill
}

// kill is when a node was killed: at some time in between, in Unix ms.
type kill struct {
	node     string
	from, to int64
}

// raise starts a fleet and waits until all its nodes are ready. It ends with the test.
func raise(t *testing.T, profile string) *fleet {
	t.Helper()
	f := &fleet{t: t, profile: profile, env: os.Environ(), ids: map[string]string{}}
	for i := range 3 {
		port := freePort(t)
		f.env = append(f.env, fmt.Sprintf("PORT_%d=%s", i+1, port))
		c, err := client.New("http://127.0.0.1:"+port, &http.Transport{MaxIdleConnsPerHost: 100})
		if err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, c)
	}
	t.Cleanup(f.lower)
	f.compose(t.Context(), "up", "--detach", "--no-build")
	services := []string{"target", "receiver", f.service(0), f.service(1), f.service(2)}
	if profile == "valkey" {
		services = append(services, "valkey")
	}
	for _, service := range services {
		f.ids[service] = strings.TrimSpace(f.compose(t.Context(), "ps", "--quiet", service))
	}
	for i := range f.nodes {
		f.ready(i)
	}
	return f
}

// lower removes the fleet. The test's own context has ended.
func (f *fleet) lower() {
	if f.t.Failed() {
		f.t.Log(f.compose(context.Background(), "logs", "--no-color", "--tail=40", f.service(0), f.service(1), f.service(2)))
	}
	f.compose(context.Background(), "down", "--volumes", "--timeout", "5")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// compose runs a command of Docker Compose.
func (f *fleet) compose(ctx context.Context, args ...string) string {
	f.t.Helper()
	words := append(strings.Fields(*composeCommand), "--project-name", project, "--file", "../../compose.yaml", "--profile", f.profile)
	return f.run(ctx, append(words, args...)...)
}

// docker does something to the container of a service, which keeps its disk and its port.
func (f *fleet) docker(verb, service string) string {
	f.t.Helper()
	return f.run(f.t.Context(), "docker", verb, f.ids[service])
}

func (f *fleet) run(ctx context.Context, words ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = f.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		f.t.Errorf("%v: %v\n%s%s", words, err, out, &errs)
	}
	return string(out)
}

// service is the name of a node's service, and node is its id.
func (f *fleet) service(i int) string { return fmt.Sprintf("%s-%d", f.profile, i+1) }
func (f *fleet) node(i int) string    { return fmt.Sprint("node-", i+1) }

func (f *fleet) ready(i int) {
	f.t.Helper()
	var err error
	eventually(f.t, time.Minute, func() string { return fmt.Sprintf("%s: %v", f.service(i), err) }, func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		defer cancel()
		err = f.nodes[i].Ready(ctx)
		return err == nil
	})
}

// rest is how long things stay as they are between two troubles.
const rest = 2 * time.Second

// trouble kills and restarts parts of the fleet: one node, another one, Valkey, two nodes at once. One node is
// stopped in order.
func (f *fleet) trouble() {
	f.rest()
	f.crash(1)
	f.crash(2)
	if f.profile == "valkey" {
		f.docker("kill", "valkey")
		f.rest()
		f.docker("start", "valkey")
		f.rest()
	}
	f.compose(f.t.Context(), "stop", f.service(0))
	f.docker("start", f.service(0))
	f.ready(0)
	f.rest()
	f.crash(0, 1)
}

// crash kills nodes, and starts them again a while later.
func (f *fleet) crash(nodes ...int) {
	f.t.Helper()
	for _, i := range nodes {
		from := time.Now().UnixMilli()
		f.docker("kill", f.service(i))
		f.kills = append(f.kills, kill{f.node(i), from, time.Now().UnixMilli()})
	}
	f.rest()
	for _, i := range nodes {
		f.docker("start", f.service(i))
	}
	for _, i := range nodes {
		f.ready(i)
	}
	f.rest()
}

func (f *fleet) rest() { _ = pause(f.t.Context(), rest) }
