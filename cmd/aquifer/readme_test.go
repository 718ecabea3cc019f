package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The reference names every command, every flag and every exit code there is.
func TestReadmeIsComplete(t *testing.T) {
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(raw)
	if !strings.Contains(readme, exitTable) {
		t.Errorf("the exit codes are not those of --help:\n%s", exitTable)
	}
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		if !strings.Contains(readme, "aquifer "+leaf.Path()) {
			t.Errorf("aquifer %s is not described", leaf.Path())
		}
		for _, flag := range leaf.Flags {
			if !strings.Contains(readme, "`--"+flag.Name+"`") {
				t.Errorf("--%s of aquifer %s is not described", flag.Name, leaf.Path())
			}
		}
	}
}
