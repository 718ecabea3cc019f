package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

func scenarioCommand(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = program().Execute(t.Context(), append([]string{"chaos"}, args...), commandline.Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--only=nonsense"}, {"--provider=raft"}, {"--rate=0"}, {"--parallel=0"}, {"--durability=none"}, {"--nonsense"},
	} {
		if code, _, errs := scenarioCommand(t, args...); code != commandline.Usage || errs == "" {
			t.Errorf("%q: exit code %d, %q", args, code, errs)
		}
	}
}

func TestWithoutANode(t *testing.T) {
	if code, _, errs := scenarioCommand(t, "--node=/nowhere/aquifer"); code != commandline.Failed || !strings.Contains(errs, "build it") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// A node that ends at once fails the scenario, with its last words, and leaves nothing behind.
func TestANodeThatDoesNotStart(t *testing.T) {
	dir, node := t.TempDir(), filepath.Join(t.TempDir(), "aquifer")
	if err := os.WriteFile(node, []byte("#!/bin/sh\necho my last words\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := scenarioCommand(t, "--node="+node, "--only=calm", "--provider=static", "--dir="+dir)
	if code != commandline.Failed || !strings.Contains(out, `"passed":false`) || !strings.Contains(errs, "my last words") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestListNamesEveryScenario(t *testing.T) {
	code, out, _ := scenarioCommand(t, "--list")
	if lines := strings.Count(out, "\n"); code != 0 || lines != len(scenarios()) {
		t.Errorf("exit code %d, %d lines", code, lines)
	}
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.name == "" || s.about == "" || s.run == nil || s.patience == 0 || seen[s.name] {
			t.Errorf("scenario %+v is incomplete or there twice", s.name)
		}
		seen[s.name] = true
	}
}
