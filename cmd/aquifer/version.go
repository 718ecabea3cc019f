package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// versionCommand prints the version.
type versionCommand struct{}

func (versionCommand) Run(p *process) error { return printVersion(p.stdout) }

// versionFlag is --version, which works without a command and beside any.
type versionFlag bool

// IgnoreDefault makes the flag act before a default command is chosen.
func (versionFlag) IgnoreDefault() {}

// BeforeReset acts as soon as the flag is seen, whatever else is wrong with the command line.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	defer app.Exit(0)
	return printVersion(app.Stdout)
}

func printVersion(w io.Writer) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintln(w, versionLine(info))
	return err
}

// versionLine is name, version, commit and the date of the commit, as far as the build recorded them.
// A version that ends in +dirty has changes beside the commit.
func versionLine(info *debug.BuildInfo) string {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	stamp := map[string]string{}
	for _, s := range info.Settings {
		stamp[s.Key] = s.Value
	}
	return fmt.Sprintf("aquifer %s (commit %s of %s, %s %s/%s)", cmp.Or(info.Main.Version, "(devel)"),
		cmp.Or(stamp["vcs.revision"], "unknown"), cmp.Or(stamp["vcs.time"], "unknown date"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
