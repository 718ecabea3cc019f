package node

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/pace"
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
		{"fallback reasons", constants(t, "proxy/proxy.go", "Reason", "Reason")},
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

// Options are called by their names also in running text.
func TestReferenceNamesOptionsThatExist(t *testing.T) {
	option := regexp.MustCompile(`AQUIFER_[A-Z_]*[A-Z]`)
	known := option.FindAllString(Reference(), -1)
	for _, name := range option.FindAllString(readReadme(t), -1) {
		if !slices.Contains(known, name) {
			t.Errorf("there is no option %s", name)
		}
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
		events.NameProxyFallback: events.ProxyFallbackData{},
		events.NameQueued:        events.QueuedData{}, events.NameDispatching: events.DispatchingData{},
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

// The row of breakers names what each kind and each reason is called.
func TestReferenceOfBreakers(t *testing.T) {
	var row string
	for _, cells := range rowsOf(t, "| Field | Meaning |\n|---|---|\n| `targets` | the list |") {
		if cells[0] == "`breaker`" {
			row = cells[1]
		}
	}
	words := []string{pace.BreakerClosed.String()}
	for _, kind := range pace.BreakerKinds() {
		words = append(words, kind.String())
	}
	for r := pace.BreakerReason(0); r.String() != "unknown"; r++ {
		words = append(words, r.String())
	}
	for _, word := range words {
		if !strings.Contains(row, "`"+word+"`") {
			t.Errorf("the row lacks %s: %q", word, row)
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
	for _, from := range []string{"../README.md", "../CONTRIBUTING.md", "../cmd/README.md", "../cmd/aquifer-bench/README.md", "../registry/README.md", "../cluster/README.md", "../deploy/README.md", "README.md"} {
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
