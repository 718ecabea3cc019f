package main

import (
	"fmt"
	"os"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// self is this program with another command, which inherits files.
func self(dir, name string, files []*os.File, args ...string) (child.Program, error) {
	path, err := os.Executable()
	if err != nil {
		return child.Program{}, fmt.Errorf("find this program: %w", err)
	}
	return child.Program{Name: name, Path: path, Args: append([]string{name}, args...), Dir: dir, Files: files}, nil
}
