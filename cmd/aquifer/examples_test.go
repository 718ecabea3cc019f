package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExamples does what a reader of the documents does. Each command of a console block must print what
// stands below it, each sh block must run, each http block must be a request that the node has sent,
// each yaml block must be a configuration, each json block must be JSON.
//
// The reader's node is at localhost:8080, the target at api.example.com, the receiver at
// app.example.com. A comment <!-- node NAME=value --> before a block asks for a node of its own.
func TestExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the examples are curl commands, and there is no curl here")
	}
	for _, path := range []string{"README.md", "node/README.md"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../" + path)
			if err != nil {
				t.Fatal(err)
			}
			w := newExampleWorld(t)
			r := &reader{t: t, world: w, names: w.names(), ids: map[string]string{}}
			r.meet(serve(t, exampleName))
			r.readAll(string(text))
		})
	}
}

// exampleName is the name of the node in the documents.
const exampleName = "AQUIFER_NODE_ID=node-1"

// block is a fenced block of a document.
type block struct {
	language, node, text string
	line                 int
}

var fence = regexp.MustCompile("(?s)\n(?:<!-- node ([^\n]*) -->\n)?```(\\S*)\n(.*?\n)```\n")

func blocksOf(document string) (list []block) {
	for _, at := range fence.FindAllStringSubmatchIndex(document, -1) {
		part := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return document[at[2*i]:at[2*i+1]]
		}
		line := 1 + strings.Count(document[:at[6]], "\n")
		list = append(list, block{node: part(1), language: part(2), text: part(3), line: line})
	}
	return list
}

// reader follows one document.
type reader struct {
	t      *testing.T
	world  *exampleWorld
	names  []alias
	orders <-chan func()     // what a command wants this goroutine to do; nil for nothing
	env    []string          // of the commands
	url    string            // of the node
	ids    map[string]string // what stands in the document, and what it is here
}

func (r *reader) readAll(text string) {
	r.t.Helper()
	blocks := blocksOf(text)
	if n := strings.Count(text, "```"); n == 0 || n != 2*len(blocks) {
		r.t.Fatalf("%d fences and %d blocks found", n, len(blocks))
	}
	for _, b := range blocks {
		r.read(b)
	}
}

// meet makes a node the one of the examples.
func (r *reader) meet(c *child) {
	r.url = c.url
	r.world.setNode(c.url)
}

func (r *reader) read(b block) {
	r.t.Helper()
	if b.node != "" {
		defer r.world.setNode(r.url)
		defer func(url string) { r.url = url }(r.url)
		r.meet(serve(r.t, append(strings.Fields(b.node), exampleName)...))
	}
	switch b.language {
	case "console":
		for _, c := range commandsOf(b) {
			r.follow(c)
		}
	case "sh":
		if b.text == "go run ./cmd/aquifer\n" || strings.Contains(b.text, startsNode) {
			return // it is what serves
		}
		if out, err := r.shell(b.text); err != nil || strings.Contains(out, `"error"`) {
			r.t.Errorf("line %d: it fails: %v\n%s", b.line, err, out)
		}
	case "http":
		r.expectRequest(b)
	case "yaml":
		r.configure(b)
	case "json":
		if !json.Valid([]byte(b.text)) {
			r.t.Errorf("line %d: that is not JSON", b.line)
		}
	default:
		r.t.Errorf("line %d: nobody checks a block of %q", b.line, b.language)
	}
}

// command is one command of a console block, and what it prints.
type command struct {
	line         int
	text, output string
}

// commandsOf reads a console block: behind "$ " a command, up to the line where its quotes are closed, and further
// lines of it behind "> ".
func commandsOf(b block) (list []command) {
	number := b.line
	var open bool
	for line := range strings.Lines(b.text) {
		text, begins := strings.CutPrefix(line, "$ ")
		if begins {
			list = append(list, command{line: number})
		}
		number++
		c := &list[len(list)-1]
		text, more := strings.CutPrefix(text, "> ")
		if !begins && !more && !open {
			c.output += line
			continue
		}
		c.text += text
		open = strings.Count(c.text, "'")%2 == 1 || strings.HasSuffix(text, "\\\n")
	}
	return list
}

// follow runs a command until it prints what the document says. The node needs a moment for some of it;
// what begins something new runs once.
func (r *reader) follow(c command) {
	r.t.Helper()
	once := strings.Contains(c.text, "-X POST") || strings.Contains(c.text, "/stream") || strings.Contains(c.text, "restart")
	late := time.After(patience)
	for first := ""; ; {
		got, err := r.shell(c.text)
		if err == nil && r.same(c.output, got) {
			return
		}
		if first == "" {
			first = got
		}
		select {
		case <-late:
			once = true
		default:
		}
		if once {
			r.t.Errorf("line %d: %v\nprinted at first\n%s\nand at last\n%s\ndocumented is\n%s", c.line, err, first, got, c.output)
			return
		}
	}
}

// shell runs commands as they stand in the document, and returns what they print in the document's terms.
func (r *reader) shell(script string) (string, error) {
	r.t.Helper()
	// From the repository, aquifer is run as a reader without the binary does.
	const prelude = `go() { shift 2; aquifer "$@"; }; make() { grep -q "^$1:" "$ROOT/Makefile"; }; ` +
		`docker() { curl -sf "$FLEET/$2/$3"; }; `
	root, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), "sh", "-ec", prelude+r.here(script))
	cmd.Dir = r.t.TempDir()
	cmd.Env = append(append(cmd.Environ(), "AQUIFER_SERVER="+r.url, "ROOT="+root), r.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// What the shell has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err = r.run(cmd); err != nil {
		err = fmt.Errorf("%w: %s", err, &errs)
	}
	return r.inDocument(out.String()), err
}

// run runs a command, and what it wants this goroutine to do.
func (r *reader) run(cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	for {
		select {
		case err := <-ended:
			return err
		case order := <-r.orders:
			order()
		}
	}
}

// here replaces what stands in the document by what it is here.
func (r *reader) here(text string) string {
	pairs := []string{"http://localhost:8080", r.url, "localhost:8080", strings.TrimPrefix(r.url, "http://")}
	for _, p := range r.names {
		pairs = append(pairs, p.document, p.here)
	}
	for document, here := range r.ids {
		pairs = append(pairs, document, here)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// inDocument is the way back, for addresses.
func (r *reader) inDocument(text string) string {
	pairs := []string{strings.TrimPrefix(r.url, "http://"), "localhost:8080", "\r", ""}
	for _, p := range r.names {
		pairs = append(pairs, p.here, p.document)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// named are ids of jobs and cursors: other ones here, but the same ones wherever they stand.
var named = regexp.MustCompile(`[0-9a-f]{32}|\bAQ[\w-]{21}`)

// same reports whether text is what the document says, but for ids and numbers that nobody can know.
// Then it learns which id is which.
func (r *reader) same(document, text string) bool {
	document, text = masked(document), masked(text)
	if named.ReplaceAllString(document, "NAMED") != named.ReplaceAllString(text, "NAMED") {
		return false
	}
	learned := map[string]string{}
	names := named.FindAllString(text, -1)
	for i, name := range named.FindAllString(document, -1) {
		if known := r.ids[name] + learned[name]; known != "" && known != names[i] {
			return false
		}
		if r.ids[name] == "" {
			learned[name] = names[i]
		}
	}
	for name, here := range learned {
		r.ids[name] = here
	}
	return true
}

// vague are the numbers that nobody can know: times, sizes and the like. What stands before them stays.
var vague = regexp.MustCompile(`(?m)` +
	`("(?:duration_ms|eta_ms|current|memory_mb|memory_limit_mb|db_bytes|db_max_bytes)":|(?:db_size|memory) |^Content-Length: ` +
	`|^X-Aqu(?:educt|ifer)-(?:Active-Queues|Queue-Backlog|Queue-Depth|Total-Jobs|Upstream-Backlog): )\d+` +
	`|()\b1\d{12}\b` +
	`|(^Date: ).*`)

// masked is a text without them, and JSON without its line breaks.
func masked(text string) string {
	var oneLine bytes.Buffer
	if json.Compact(&oneLine, []byte(text)) == nil {
		text = oneLine.String()
	}
	return strings.TrimSpace(vague.ReplaceAllString(text, "${1}${2}${3}#"))
}

// expectRequest waits for a request as it stands in the document.
func (r *reader) expectRequest(b block) {
	r.t.Helper()
	late := time.After(patience)
	for {
		requests := r.world.sent()
		for _, got := range requests {
			if r.same(sortedHeader(b.text), r.inDocument(got)) {
				return
			}
		}
		select {
		case <-late:
			r.t.Errorf("line %d: documented is\n%s\nthe node has sent\n%s", b.line, sortedHeader(b.text), strings.Join(requests, "\n--\n"))
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sortedHeader is a request with its header lines in order, and their names as servers see them.
func sortedHeader(request string) string {
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	for i, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		lines[i+1] = textproto.CanonicalMIMEHeaderKey(name) + ":" + value
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n") + "\n\n" + body
}

// configure has a node check a configuration.
func (r *reader) configure(b block) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "targets.yaml")
	if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), "aquifer", "config")
	cmd.Env = append(cmd.Environ(), fmt.Sprintf("CONFIG_PATH=%s", path))
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("line %d: %v: %s", b.line, err, out)
	}
}
