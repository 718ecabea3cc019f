package node

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// constant is one member of a set of strings, as it is declared.
type constant struct{ value, meaning string }

// declared returns the constants of a type in the order of their declaration, with the comments behind
// them.
func declared(t *testing.T, path, typeName string) (list []constant) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || fmt.Sprint(spec.Type) != typeName {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		meaning := strings.TrimSpace(spec.Comment.Text())
		if err != nil || meaning == "" {
			t.Errorf("%s: %s has no comment behind it, or no value: %v", path, spec.Names[0].Name, err)
		}
		list = append(list, constant{value, meaning})
		return true
	})
	if len(list) == 0 {
		t.Fatalf("%s declares no %s", path, typeName)
	}
	return list
}

// constants is the table of a set of strings.
func constants(t *testing.T, path, typeName, heading string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | Meaning |\n|---|---|\n", heading)
	for _, c := range declared(t, path, typeName) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.meaning)
	}
	return b.String()
}

func errorClasses(t *testing.T) string {
	t.Helper()
	meanings := map[string]string{}
	for _, c := range declared(t, "job/attempt.go", "ErrorClass") {
		meanings[c.value] = c.meaning
	}
	if len(meanings) != len(job.ErrorClasses()) {
		t.Errorf("%d error classes are declared and %d listed", len(meanings), len(job.ErrorClasses()))
	}
	var b strings.Builder
	b.WriteString("| Class | Meaning | Final |\n|---|---|---|\n")
	for _, c := range job.ErrorClasses() {
		final := ""
		if c.Final() {
			final = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c, meanings[string(c)], final)
	}
	return b.String()
}

// metricsTable is the table of the metrics of a node that has done all kinds of work.
func metricsTable(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	workOnce(t, registry)
	types := map[string]string{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	rows := map[string]string{}
	for _, d := range describe(registry) {
		if types[d.name] == "" {
			t.Errorf("%s is registered and not shown by a node that has worked", d.name)
		}
		rows[d.name] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", d.name, types[d.name], d.labels, d.help)
	}
	if len(rows) != len(types) {
		t.Errorf("%d metrics are described and %d shown", len(rows), len(types))
	}
	table := "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table += rows[name]
	}
	return table
}

// workOnce runs a node that sends one job to itself, and stops it. Nobody takes its registration.
func workOnce(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	n, err := New(mustConfig(t, "AQUIFER_LISTEN=127.0.0.1:0", "AQUIFER_SHUTDOWN_QUIESCE_MS=0",
		"AQUIFER_REGISTRY_URL=http://127.0.0.1:1/"), Deps{FS: vfs.NewMem(), Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-n.Ready()
	url := "http://" + n.Addr().String()
	answer := request(t, http.MethodPost, url+"/jobs",
		fmt.Sprintf(`{"user_id":"u","idempotent_key":"k","method":"GET","url":"%s/health","webhook_url":"%[1]s/health"}`, url))
	id := regexp.MustCompile("[0-9a-f]{32}").FindString(answer)
	request(t, http.MethodGet, url+"/jobs/"+id+"/stream", "") // ends with the job
}

func request(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// description is what a metric says about itself.
type description struct{ name, help, labels string }

// describe returns what is registered, whether or not it has a value.
func describe(registry *prometheus.Registry) (list []description) {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	form := regexp.MustCompile(`^Desc{fqName: "(.*?)", help: "(.*?)", .*constLabels: {(.*)}, variableLabels: {(.*)}}$`)
	value := regexp.MustCompile(`="[^"]*"`)
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			continue // whoever compares it with what is shown misses it
		}
		labels := value.ReplaceAllString(strings.Trim(m[3]+","+m[4], ","), "")
		if labels != "" {
			labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
		}
		list = append(list, description{m[1], m[2], labels})
	}
	return list
}
