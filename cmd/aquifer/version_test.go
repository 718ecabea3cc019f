package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionLine(t *testing.T) {
	stamped := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-30T02:53:22Z"}},
	}
	for want, info := range map[string]*debug.BuildInfo{
		"aquifer v1.2.3 (commit abc of 2026-11-30T02:53:22Z, go": stamped,
		"aquifer (devel) (commit unknown of unknown date, go":    {},
		"aquifer (devel) (commit unknown of unknown date, go1":   nil,
	} {
		if got := versionLine(info); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
