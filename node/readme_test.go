package node

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

var update = flag.Bool("update", false, "rewrite the generated parts of README.md")

// What the reference says about names and numbers is generated from the code.
func TestReferenceIsGenerated(t *testing.T) {
	readme := readReadme(t)
	text := readme
	for _, part := range []struct{ name, want string }{
		{"configuration", Reference()},
		{"error classes", errorClasses(t)},
		{"webhook states", constants(t, "job/webhook.go", "WebhookState", "State")},
		{"gap reasons", constants(t, "events/vocabulary.go", "GapReason", "Reason")},
		{"closing reasons", constants(t, "events/vocabulary.go", "ClosingReason", "Reason")},
		{"metrics", metricsTable(t)},
	} {
		text = replacePart(t, text, part.name, part.want)
	}
	if text == readme {
		return
	}
	if !*update {
		t.Fatal("generated parts of README.md are stale: run go test ./node -run Reference -update")
	}
	if err := os.WriteFile("README.md", []byte(text), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

func readReadme(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// replacePart returns the document with other text between the marks of a part.
func replacePart(t *testing.T, document, name, text string) string {
	t.Helper()
	begin, end := "<!-- "+name+": go test ./node -run Reference -update -->\n", "<!-- end of "+name+" -->"
	head, rest, opened := strings.Cut(document, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("README.md has no place for the %s", name)
	}
	return head + begin + text + "\n" + end + tail
}

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

// workOnce runs a node that sends one job to itself, and stops it.
func workOnce(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	n, err := New(mustConfig(t, "AQUIFER_LISTEN=127.0.0.1:0", "AQUIFER_SHUTDOWN_QUIESCE_MS=0"), Deps{FS: vfs.NewMem(), Registry: registry})
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

// rowsOf returns the rows of the table that follows a heading of the reference, cell by cell.
func rowsOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(readReadme(t), heading+"\n")
	if !ok {
		t.Fatalf("README.md has no table %q", heading)
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, c := range cells {
			cells[i] = strings.TrimSpace(c)
		}
		rows = append(rows, cells)
	}
	return rows
}

// The table of refusals is that of package api, whose own test holds it against what it answers.
func TestReferenceOfRefusals(t *testing.T) {
	doc, err := os.ReadFile("api/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, cells := range rowsOf(t, "| Status | Kind | When | Beside `error` |") {
		rows[strings.Trim(cells[1], "`")] = cells
	}
	if len(rows) != len(fault.Kinds()) {
		t.Errorf("there are %d rows and %d kinds", len(rows), len(fault.Kinds()))
	}
	for _, kind := range fault.Kinds() {
		m := regexp.MustCompile(`(?m)^//\t` + kind.String() + ` +(\d{3})(.*)$`).FindStringSubmatch(string(doc))
		if m == nil {
			t.Fatalf("package api does not say how it answers %s", kind)
		}
		row := rows[kind.String()]
		if len(row) != 4 || row[0] != m[1] {
			t.Errorf("%s is answered with %s; the row is %q", kind, m[1], row)
			continue
		}
		for _, mark := range regexp.MustCompile(`[a-z]+_[a-z]+|[A-Z][a-z]+(-[A-Za-z]+)+|connection closes`).FindAllString(m[2], -1) {
			if !strings.Contains(row[3], mark) {
				t.Errorf("the row of %s lacks %s: %q", kind, mark, row)
			}
		}
	}
}

// The table of events names the keys that their data have.
func TestReferenceOfEvents(t *testing.T) {
	data := map[string]any{
		events.NameQueued: events.QueuedData{}, events.NameDispatching: events.DispatchingData{},
		events.NamePosition: events.PositionData{}, events.NameRetrying: events.RetryingData{},
		events.NameCompleted: events.CompletedData{}, events.NameFailed: events.FailedData{},
		events.NameGap: events.GapData{}, events.NameClosing: events.ClosingData{},
	}
	rows := map[string]string{}
	for _, cells := range rowsOf(t, "| Event | `id` | Keys of its data | When |") {
		rows[strings.Trim(cells[0], "`")] = cells[2]
	}
	if len(rows) != len(data) {
		t.Errorf("there are %d rows and %d events", len(rows), len(data))
	}
	for name, d := range data {
		want := "`" + strings.Join(keysOf(reflect.TypeOf(d)), "`, `") + "`"
		if rows[name] != want {
			t.Errorf("%s has the keys %s, documented are %s", name, want, rows[name])
		}
	}
}

// keysOf returns the JSON names of a struct's fields in order.
func keysOf(s reflect.Type) (keys []string) {
	for f := range s.Fields() {
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return keys
}

// Every key and every header of the wire stands somewhere in the reference.
func TestReferenceIsComplete(t *testing.T) {
	readme := readReadme(t)
	names := map[string]string{} // by what to look for: where it is from
	for _, pattern := range []string{"api/*.go", "webhook/*.go", "dispatch/*.go", "job/decode.go", "job/text.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`json:"(\w+)|(X-Aqueduct-[\w-]+\w)|aqueduct ?\+ ?"([\w-]+)"`).FindAllStringSubmatch(string(source), -1) {
				switch {
				case m[1] != "" && m[1] != "pool_id": // no node has pools
					names[m[1]] = path
				case m[2] != "":
					names[m[2]] = path
				case m[3] != "":
					names["X-Aqueduct-"+m[3]] = path
				}
			}
		}
	}
	for name, path := range names {
		if !regexp.MustCompile("[`\" ]"+name+"[`\":]").MatchString(readme) && !strings.Contains(readme, "\n"+name+":") {
			t.Errorf("%s of %s is not described", name, path)
		}
	}
	if len(names) < 60 {
		t.Errorf("only %d names found", len(names))
	}
}

// A link between our documents leads somewhere: to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	found := 0
	for _, from := range []string{"../README.md", "../CONTRIBUTING.md", "../cmd/README.md", "../cmd/aquifer-bench/README.md", "README.md"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			to := from
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(from), m[1])
			}
			target, err := os.ReadFile(to)
			if err != nil || m[2] != "" && !slices.Contains(anchors(string(target)), m[2]) {
				t.Errorf("%s: %s leads nowhere: %v", from, m[0], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links found", found)
	}
}

// anchors returns the names under which the headings of a document are found.
func anchors(document string) (list []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		heading := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(heading, " ", "-"))
	}
	return list
}
