package node_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits of the house.
const (
	maxFileLines         = 600
	maxFunctionLines     = 60
	maxTestFunctionLines = 100
	maxParameters        = 5
)

const module = "github.com/aquifer-fleet/aquifer/"

// mayImport says which of our packages each package may import. It is the drawing of the house: an
// arrow that is not here needs a reason, and a place in this table.
func mayImport() map[string]string {
	return map[string]string{
		"node/fault":             "",
		"node/pace":              "",
		"node/alarm":             "",
		"node/logbook":           "",
		"node/metrictest":        "",
		"node/retry":             "node/alarm node/job node/pace",
		"node/crashpoint":        "",
		"node/hostname":          "",
		"node/job":               "node/fault node/hostname",
		"node/egress":            "node/fault node/hostname",
		"node/admit":             "node/fault",
		"node/inbound":           "",
		"node/socket":            "",
		"node/store":             "node/job node/fault node/retry",
		"node/store/pebblestore": "node/store node/job node/fault node/crashpoint",
		"node/store/storetest":   "node/store node/job node/fault",
		"node/dispatch":          "node/job node/pace node/fault node/egress",
		"node/queue":             "node/job node/pace",
		"node/events":            "node/job",
		"node/results":           "node/job node/fault cluster/valkey/link",
		"node/intake":            "node/job node/fault node/store node/queue node/crashpoint",
		"node/worker":            "node/job node/pace node/fault node/store node/dispatch node/events node/queue node/alarm node/retry node/crashpoint",
		"node/proxy":             "node/job node/egress node/dispatch node/events node/intake node/queue node/worker",
		"node/agenda":            "node/job node/store node/queue",
		"node/handoff":           "node/job node/store node/queue",
		"node/webhook":           "node/job node/pace node/store node/alarm node/retry",
		"node/drain":             "node/job",
		"node/api":               "node/job node/fault node/store node/intake node/proxy node/events node/alarm node/socket",
		"node/client":            "node/job node/fault node/events",
		"node": "node/fault node/pace node/crashpoint node/job node/egress node/admit node/inbound node/store node/store/pebblestore node/dispatch " +
			"node/queue node/events node/intake node/worker node/proxy node/agenda node/webhook node/api node/client node/drain node/handoff node/results registry cluster cluster/gossip cluster/valkey cluster/valkey/link",
		"node/nodetest": "node node/client node/job node/logbook cluster/gossip/gossiptest",
		// The cluster knows nothing of a node.
		"cluster":                   "",
		"cluster/clustertest":       "cluster",
		"cluster/gossip":            "cluster",
		"cluster/gossip/gossiptest": "",
		"cluster/valkey":            "cluster cluster/valkey/link",
		"cluster/valkey/link":       "",
		"cluster/valkey/valkeytest": "",
		"cmd/aquifer":               "node node/client node/events node/job node/fault",
		"cmd/aquifer-bench":         "cmd/child cmd/commandline cmd/port node/client node/job",
		"cmd/aquifer-scenario":      "cmd/child cmd/commandline cmd/port node/job",
		"cmd/child":                 "",
		"cmd/commandline":           "",
		"cmd/port":                  "",
		"registry":                  "",
		"registry/registrytest":     "registry",
	}
}

func TestImports(t *testing.T) {
	table := mayImport()
	for _, p := range packages(t) {
		allowed, known := table[p.name]
		if !known {
			t.Errorf("%s is not in the table of imports", p.name)
		}
		for _, imported := range p.imports {
			if !slices.Contains(strings.Fields(allowed), imported) {
				t.Errorf("%s must not import %s", p.name, imported)
			}
		}
	}
}

type goPackage struct {
	name    string
	doc     string
	imports []string // of ours, by name
}

// packages lists our packages as the go command sees them, without their tests.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,GoFiles,Imports", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath, Doc  string
			GoFiles, Imports []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) == 0 {
			continue
		}
		mine := goPackage{name: strings.TrimPrefix(p.ImportPath, module), doc: p.Doc}
		for _, path := range p.Imports {
			if name, ours := strings.CutPrefix(path, module); ours {
				mine.imports = append(mine.imports, name)
			}
		}
		list = append(list, mine)
	}
	if len(list) == 0 {
		t.Fatal("no packages found")
	}
	return list
}

func TestPackageNamesAndDocs(t *testing.T) {
	for _, p := range packages(t) {
		if p.doc == "" {
			t.Errorf("%s has no package comment", p.name)
		}
		for part := range strings.SplitSeq(p.name, "/") {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "models", "manager", "internal"}, part) {
				t.Errorf("%s: a package is a noun that one can say to an operator", p.name)
			}
		}
	}
}

func TestTopFoldersHaveAReadme(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range packages(t) {
		top, _, _ := strings.Cut(p.name, "/")
		if seen[top] {
			continue
		}
		seen[top] = true
		if _, err := os.Stat(filepath.Join("..", top, "README.md")); err != nil {
			t.Errorf("%s has no README.md", top)
		}
	}
}

func TestSizes(t *testing.T) {
	files := token.NewFileSet()
	for path, file := range sources(t, files) {
		if lines := files.File(file.Pos()).LineCount(); lines >= maxFileLines {
			t.Errorf("%s has %d lines", path, lines)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				checkFunction(t, files, path, f)
			}
		}
	}
}

func checkFunction(t *testing.T, files *token.FileSet, path string, f *ast.FuncDecl) {
	t.Helper()
	limit := maxFunctionLines
	if strings.HasSuffix(path, "_test.go") {
		limit = maxTestFunctionLines
	} else if n := parameters(f); n > maxParameters {
		t.Errorf("%s: %s has %d parameters; make them a struct", path, f.Name.Name, n)
	}
	if lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1; lines > limit {
		t.Errorf("%s: %s has %d lines; a function fits a screen", path, f.Name.Name, lines)
	}
	if f.Name.Name == "init" && f.Recv == nil {
		t.Errorf("%s: init runs behind everybody's back", path)
	}
}

// parameters counts those of a function beside its context.
func parameters(f *ast.FuncDecl) int {
	n := f.Type.Params.NumFields()
	if n > 0 {
		first, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
		if ok && first.Sel.Name == "Context" {
			n--
		}
	}
	return n
}

// Tests sleep only in packages that test in bubbles of testing/synctest, where it takes no time.
func TestSleeps(t *testing.T) {
	files := token.NewFileSet()
	sleeps, bubbles := map[string]string{}, map[string]bool{}
	for path, file := range sources(t, files) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		dir := filepath.Dir(path)
		bubbles[dir] = bubbles[dir] || imports(file, "testing/synctest")
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
				if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "time" {
					sleeps[dir] = files.Position(call.Pos()).String()
				}
			}
			return true
		})
	}
	for dir, at := range sleeps {
		if !bubbles[dir] {
			t.Errorf("%s sleeps, and there is no bubble in %s", at, dir)
		}
	}
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
}

// sources iterates over the Go files of the repository.
func sources(t *testing.T, files *token.FileSet) iter.Seq2[string, *ast.File] {
	t.Helper()
	return func(yield func(string, *ast.File) bool) {
		found := 0
		err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (len(d.Name()) > 2 && d.Name()[0] == '.' || d.Name() == "testdata"):
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go"):
				return nil
			}
			found++
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err == nil && !yield(path, file) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil || found == 0 {
			t.Fatalf("%d files, %v", found, err)
		}
	}
}
