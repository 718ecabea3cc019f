package node

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"

	"github.com/aquifer-fleet/aquifer/cluster/valkey"
)

// AutoInt is a whole number that is not negative, or Auto.
type AutoInt int64

// Auto is the AutoInt whose value the node works out by itself.
const Auto AutoInt = -1

// String returns the number, or "auto".
func (n AutoInt) String() string {
	if n == Auto {
		return "auto"
	}
	return strconv.FormatInt(int64(n), 10)
}

// Warning is something about the configuration that does not stop the start.
type Warning struct {
	Name string // the variable
	Text string
}

// Problem is a setting that stops the start.
type Problem struct {
	Name  string // variable, or path in the YAML file
	Rule  string // what it must be
	Value string // what it is
	Err   error  // says rule and value in place of the two above, if they are not this package's to know
}

// String says which setting breaks which rule with which value, each of them once.
func (p Problem) String() string {
	if p.Err != nil {
		return p.Name + ": " + strings.ReplaceAll(p.Err.Error(), "\n", "; ") // several may be joined
	}
	return fmt.Sprintf("%s must be %s, got %q", p.Name, p.Rule, p.Value)
}

// ConfigError is all that is wrong with a configuration.
type ConfigError struct{ Problems []Problem }

// Error lists every problem on a line of its own.
func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is not valid:")
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// FromEnv reads the configuration from environment variables, each in the form NAME=value, and from
// the YAML file that CONFIG_PATH names. An empty variable counts as not set. hostname names the node
// if nothing else does. The error is a *ConfigError with every problem there is; the
// warnings hold beside it.
func FromEnv(environ []string, hostname string) (Config, []Warning, error) {
	vars := env.ToMap(environ)
	var c Config
	problems := c.parse(vars)
	c.complete(vars, hostname)
	bad := make(map[string]bool, len(problems))
	for _, p := range problems {
		bad[p.Name] = true
	}
	for _, p := range c.problems() {
		if p.Name == "AQUIFER_NODE_ID" && vars[p.Name] == "" && vars["AQUIFER_CLUSTER_SELF_ID"] != "" {
			p.Name = "AQUIFER_CLUSTER_SELF_ID" // which the other one was taken from
		}
		if !bad[p.Name] {
			problems = append(problems, p)
		}
	}
	problems = append(problems, c.readTargets()...)
	warnings := append(unknown(slices.Sorted(maps.Keys(vars)), c.settings()), c.idle(vars, problems)...)
	if len(problems) > 0 {
		return Config{}, warnings, &ConfigError{Problems: problems}
	}
	c.Cluster.InstanceTTLSecs = max(c.Cluster.InstanceTTLSecs, valkey.MinBeats*c.Cluster.HeartbeatSecs)
	return c, warnings, nil
}

// Validate returns a *ConfigError with every rule that c breaks, or nil.
func (c *Config) Validate() error {
	problems := append(c.problems(), c.Targets.problems("Targets")...)
	problems = append(problems, c.Webhooks.problems("Webhooks")...)
	if len(problems) > 0 {
		return &ConfigError{Problems: problems}
	}
	return nil
}

// parse sets the fields from the variables and returns the values that have the wrong form.
func (c *Config) parse(vars map[string]string) []Problem {
	var problems []Problem
	var name string // the variable whose value is being parsed
	refuse := func(rule, value string) error {
		problems = append(problems, Problem{Name: name, Rule: rule, Value: value})
		return errRefused
	}
	err := env.ParseWithOptions(c, env.Options{
		Environment: vars,
		OnSet:       func(n string, _ any, _ bool) { name = n },
		FuncMap: map[reflect.Type]env.ParserFunc{
			reflect.TypeFor[bool]():     func(v string) (any, error) { return parseBool(v, refuse) },
			reflect.TypeFor[int]():      func(v string) (any, error) { n, err := parseInt(v, refuse); return int(n), err },
			reflect.TypeFor[int64]():    func(v string) (any, error) { return parseInt(v, refuse) },
			reflect.TypeFor[AutoInt]():  func(v string) (any, error) { return parseAuto(v, refuse) },
			reflect.TypeFor[[]string](): func(v string) (any, error) { return parseList(v, refuse) },
		},
	})
	if err != nil && len(problems) == 0 {
		problems = append(problems, Problem{Name: name, Err: err})
	}
	return problems
}

var errRefused = errors.New("refused")

// complete works out the defaults that depend on other variables or on the machine.
func (c *Config) complete(vars map[string]string, hostname string) {
	if c.Listen == "" {
		c.Listen = portOnly(c.Port)
	}
	for _, name := range [...]string{c.Cluster.SelfID, vars["FLY_MACHINE_ID"], hostname} {
		if c.NodeID == "" {
			c.NodeID = name
		}
	}
	if c.Cluster.ValkeyURL == "" {
		c.Cluster.ValkeyURL = c.Valkey.URL
	}
	if c.Cluster.SelfID == "" {
		c.Cluster.SelfID = c.NodeID
	}
	for _, hosts := range [...][]string{c.AllowedURLDomains, c.AllowedWebhookDomains, c.EgressAllow} {
		for i := range hosts {
			hosts[i] = strings.ToLower(hosts[i])
		}
	}
}

type refusal func(rule, value string) error

func parseBool(v string, refuse refusal) (bool, error) {
	switch strings.ToLower(v) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	default:
		return false, refuse("1, true, yes, 0, false or no", v)
	}
}

func parseInt(v string, refuse refusal) (int64, error) {
	n, ok := wholeNumber(v)
	if !ok {
		return 0, refuse("a whole number", v)
	}
	return n, nil
}

func parseAuto(v string, refuse refusal) (AutoInt, error) {
	if strings.EqualFold(v, "auto") {
		return Auto, nil
	}
	n, ok := wholeNumber(v)
	if !ok || n < 0 {
		return 0, refuse("auto or a whole number of at least 0", v)
	}
	return AutoInt(n), nil
}

func wholeNumber(v string) (int64, bool) {
	n, err := strconv.ParseInt(v, 10, 64)
	return n, err == nil && v[0] != '+'
}

// parseList splits a comma list and drops what is empty. If nothing is left, whoever wrote the list wanted something else
// than none: as a list of secrets it would let everybody in.
func parseList(v string, refuse refusal) ([]string, error) {
	var list []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	if len(list) == 0 {
		return nil, refuse("a list with an entry, or empty", v)
	}
	return list, nil
}
