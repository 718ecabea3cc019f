package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aquifer-fleet/aquifer/node"
)

// Names of the environment that are this program's own and not settings of a node.
const (
	serverName = "AQUIFER_SERVER"
	crashName  = "AQUIFER_CRASH_AT"
)

// settings reads what a node would run with. The failure lists everything that is wrong.
func (p *process) settings() (node.Config, []node.Warning, error) {
	cfg, warnings, err := node.FromEnv(withoutOwn(p.environ), p.hostname)
	if err != nil {
		warn(p.stderr, warnings) // a name that is mistyped may be why
		return cfg, nil, &failure{code: exitUsage, err: err}
	}
	if err := armCrashPoint(p.env(crashName)); err != nil {
		return cfg, nil, &failure{code: exitUsage, err: err}
	}
	return cfg, warnings, nil
}

// env returns the value of a variable of this program's own, or of the Go runtime.
func (p *process) env(name string) string {
	for _, entry := range p.environ {
		if n, value, _ := strings.Cut(entry, "="); n == name {
			return value
		}
	}
	return ""
}

// withoutOwn returns environ without the names that a node does not know and need not.
func withoutOwn(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == serverName || name == crashName
	})
}

// configCommand prints the settings that a node would run with.
type configCommand struct{}

func (configCommand) Run(p *process) error {
	cfg, warnings, err := p.settings()
	if err != nil {
		return err
	}
	warn(p.stderr, warnings)
	return cfg.Print(p.stdout)
}

func warn(w io.Writer, warnings []node.Warning) {
	for _, warning := range warnings {
		_, _ = fmt.Fprintf(w, "aquifer: warning: %s: %s\n", warning.Name, warning.Text)
	}
}

func (*configCommand) examples() string {
	return `Examples:
  aquifer config                            what a node here would run with
  AQUIFER_LOG=json aquifer config           the same with one more setting
  CONFIG_PATH=targets.yaml aquifer config   with the pace of your targets

It checks what a start checks: every problem is listed at once, and the exit code is 2. The output is
an environment file; secrets are redacted. node/README.md says what each setting does.
`
}
