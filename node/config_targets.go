package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Target is what the operator allows one target, or one webhook receiver.
type Target struct {
	RPS           float64 // requests per second
	MaxConcurrent int
	Timeout       time.Duration // of one attempt; 0 means no limit
	SlowStart     bool          // begin slowly when it starts from nothing
	ShareByUse    bool          // tenants share what their calls use of it, not the number of calls
	Shared        bool          // RPS and MaxConcurrent are for all nodes of the cluster together
}

// Targets is what the operator allows each of them.
type Targets struct {
	Default Target
	Hosts   map[string]Target // by job.HostOf
}

// For returns what is allowed for host[:port] as in the URL.
func (t Targets) For(host string) Target {
	if target, ok := t.Hosts[job.HostOf(host)]; ok {
		return target
	}
	return t.Default
}

// targetsFile is the YAML file.
type targetsFile struct {
	Defaults  block            `yaml:"defaults"`
	Upstreams map[string]block `yaml:"upstreams"` // by host[:port] as in the URL
	Webhooks  block            `yaml:"webhooks"`
}

// block is one block of the file; nil leaves a value to the next wider block.
type block struct {
	RPS           *float64 `yaml:"rps"`
	MaxConcurrent *int     `yaml:"max_concurrent"`
	Timeout       *int     `yaml:"timeout"`
	SlowStart     *bool    `yaml:"slow_start"`
	ShareBy       *string  `yaml:"share_by"`
	Shared        *bool    `yaml:"shared"`
}

// Bounds of the values in the file, and the defaults where it sets none.
const (
	defaultRPS, minRPS, maxRPS             = 2, 0.001, 1_000_000_000
	defaultMaxConcurrent, maxMaxConcurrent = 1, 65_536
	maxTimeout                             = 24 * time.Hour
)

// readTargets reads the YAML file, if there is one, and sets Targets and Webhooks.
func (c *Config) readTargets() []Problem {
	var data []byte
	if c.ConfigPath != "" {
		var err error
		if data, err = os.ReadFile(c.ConfigPath); err != nil {
			return []Problem{{Name: "CONFIG_PATH", Err: err}}
		}
	}
	f, err := decodeTargets(data)
	var problems []Problem
	var wrong *yaml.LoadErrors
	switch {
	case errors.As(err, &wrong):
		at := spotsOf(data)
		for _, e := range wrong.Errors {
			problems = append(problems, at.problem(e))
		}
	case err != nil:
		return []Problem{{Name: "CONFIG_PATH", Err: fmt.Errorf("%s: %w", c.ConfigPath, err)}}
	default:
		c.Targets, c.Webhooks = f.resolve(c.AttemptTimeout())
		problems = f.problems()
	}
	for i := range problems {
		problems[i].Name += " in " + c.ConfigPath
	}
	return problems
}

// decodeTargets reads the one document of the file; an empty one is fine. Unknown and doubled names
// are errors.
func decodeTargets(data []byte) (targetsFile, error) {
	var f targetsFile
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields())
	if err != nil {
		return f, err
	}
	if err := loader.Load(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		return f, err
	}
	if err := loader.Load(new(any)); !errors.Is(err, io.EOF) {
		return f, errors.New("it must be one document")
	}
	return f, nil
}

// resolve fills in what the blocks of the file leave open. A receiver has what webhooks says, else
// what its own entry under upstreams says, else the defaults.
func (f targetsFile) resolve(timeout time.Duration) (targets, webhooks Targets) {
	base := f.Defaults.over(Target{RPS: defaultRPS, MaxConcurrent: defaultMaxConcurrent, Timeout: timeout})
	targets = Targets{Default: base, Hosts: make(map[string]Target, len(f.Upstreams))}
	webhooks = Targets{Default: f.Webhooks.over(base), Hosts: make(map[string]Target, len(f.Upstreams))}
	for key, block := range f.Upstreams {
		host := job.HostOf(key)
		targets.Hosts[host] = block.over(base)
		webhooks.Hosts[host] = f.Webhooks.over(targets.Hosts[host])
	}
	return targets, webhooks
}

// over returns t with what b sets.
func (b block) over(t Target) Target {
	if b.RPS != nil {
		t.RPS = *b.RPS
	}
	if b.MaxConcurrent != nil {
		t.MaxConcurrent = *b.MaxConcurrent
	}
	if b.Timeout != nil {
		// The bounds keep a number that is out of range out of range after the multiplication.
		t.Timeout = time.Duration(min(max(*b.Timeout, -1), math.MaxInt32)) * time.Second
	}
	if b.SlowStart != nil {
		t.SlowStart = *b.SlowStart
	}
	if b.ShareBy != nil {
		t.ShareByUse = *b.ShareBy == shareByUse
	}
	if b.Shared != nil {
		t.Shared = *b.Shared
	}
	return t
}

// problems lists what breaks a rule in the block, with the values as they stand there.
func (b block) problems(path string) []Problem {
	list := b.over(Target{RPS: defaultRPS, MaxConcurrent: defaultMaxConcurrent}).problems(path)
	if by := b.ShareBy; by != nil && *by != shareByUse && *by != shareByDispatch {
		list = append(list, Problem{Name: path + ".share_by", Rule: shareByRule, Value: *by})
	}
	for i := range list {
		if list[i].Name == path+".timeout" {
			list[i].Value = strconv.Itoa(*b.Timeout) // over has cut it
		}
	}
	return list
}

// problems lists what breaks a rule in the blocks of the file, each under the block's own path.
func (f targetsFile) problems() []Problem {
	list := append(f.Defaults.problems("defaults"), f.Webhooks.problems("webhooks")...)
	first := make(map[string]string, len(f.Upstreams)) // the key of each host
	for _, key := range slices.Sorted(maps.Keys(f.Upstreams)) {
		path, host := "upstreams."+key, job.HostOf(key)
		if !job.ValidHost(key) {
			list = append(list, Problem{Name: path, Err: badName(hostRule)})
		}
		if other, twice := first[host]; twice {
			list = append(list, Problem{Name: path, Err: badName(fmt.Sprintf("of another host than %q", other))})
		} else {
			first[host] = key
		}
		list = append(list, f.Upstreams[key].problems(path)...)
	}
	return list
}

// problems lists what breaks a rule, for a configuration that no file was read for.
func (t Targets) problems(path string) []Problem {
	list := t.Default.problems(path + ".Default")
	for _, host := range slices.Sorted(maps.Keys(t.Hosts)) {
		if name := job.HostOf(host); name != host {
			list = append(list, Problem{Name: path + ".Hosts", Rule: "by job.HostOf, which is " + strconv.Quote(name), Value: host})
		}
		list = append(list, t.Hosts[host].problems(path+"."+host)...)
	}
	return list
}

func (t Target) problems(path string) []Problem {
	var list []Problem
	check := func(ok bool, name, rule string, value any) {
		if !ok {
			list = append(list, Problem{Name: path + "." + name, Rule: rule, Value: fmt.Sprint(value)})
		}
	}
	check(t.RPS >= minRPS && t.RPS <= maxRPS, "rps", rpsRule(), t.RPS)
	check(t.MaxConcurrent >= 1 && t.MaxConcurrent <= maxMaxConcurrent, "max_concurrent", maxConcurrentRule(), t.MaxConcurrent)
	check(t.Timeout >= 0 && t.Timeout <= maxTimeout, "timeout", timeoutRule(), t.Timeout.Seconds())
	return list
}

// What the file must say.
const (
	hostRule    = "host or host:port as in the URL"
	shareByRule = shareByDispatch + " or " + shareByUse

	shareByDispatch = "dispatch" // each call counts the same
	shareByUse      = "use"      // a call counts by the part of the target's rate or slots that it takes
)

func rpsRule() string           { return fmt.Sprintf("a number from %v to %d", minRPS, maxRPS) }
func maxConcurrentRule() string { return fmt.Sprintf("a whole number, 1 to %d", maxMaxConcurrent) }
func timeoutRule() string       { return fmt.Sprintf("whole seconds from 0 to %.0f", maxTimeout.Seconds()) }
