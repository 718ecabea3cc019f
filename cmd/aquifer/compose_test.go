package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"github.com/aquifer-fleet/aquifer/node"
)

// composeFile is what the tests need of compose.yaml.
type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
}

type composeService struct {
	Image       string
	Profiles    []string
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Networks    map[string]struct{ Aliases []string }
	HealthCheck struct{ Test []string }
}

// fallback is a variable of compose.yaml with what holds if nobody sets it.
var fallback = regexp.MustCompile(`\$\{\w+:-([^}]*)\}`)

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(fallback.ReplaceAllString(readFile(t, "../../compose.yaml"), "$1")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each profile of compose.yaml is three nodes that know all their settings and differ in what must differ.
func TestComposeNodes(t *testing.T) {
	file := readCompose(t)
	for _, profile := range []string{"gossip", "valkey"} {
		for i := range 3 {
			id, name := fmt.Sprint("node-", i+1), fmt.Sprintf("%s-%d", profile, i+1)
			s, there := file.Services[name]
			if !there || !slices.Equal(s.Profiles, []string{profile}) {
				t.Fatalf("%s: there: %v, profiles %q", name, there, s.Profiles)
			}
			cfg := settingsOf(t, name, s)
			switch c := cfg.Cluster; {
			case c.Provider != profile, c.SelfID != id, cfg.NodeID != id, c.SelfAddr != "http://"+id+":8080", len(c.PeerSecret) == 0:
				t.Errorf("%s: it is %s of %s at %s by %s", name, c.SelfID, cfg.NodeID, c.SelfAddr, c.Provider)
			case !slices.Contains(s.Networks["default"].Aliases, id), !slices.Contains(s.Volumes, id+":/data"):
				t.Errorf("%s: its address %q and its disk %q are not its own", name, s.Networks["default"].Aliases, s.Volumes)
			case !slices.Equal(s.Ports, []string{fmt.Sprintf("127.0.0.1:808%d:8080", i+1)}):
				t.Errorf("%s: it is called at %q", name, s.Ports)
			}
			if _, there := file.Volumes[id]; !there {
				t.Errorf("there is no volume %s", id)
			}
			commandOf(t, name, s.HealthCheck.Test[1:])
		}
	}
	for _, name := range []string{"target", "receiver"} {
		s := file.Services[name]
		if len(s.Profiles) != 0 {
			t.Errorf("%s is only there with %q", name, s.Profiles)
		}
		commandOf(t, name, append([]string{"aquifer"}, s.Command...))
	}
	if n := len(file.Services); n != 9 {
		t.Errorf("there are %d services; what are the others?", n)
	}
}

// settingsOf returns the settings of a node that compose starts from the image.
func settingsOf(t *testing.T, name string, s composeService) node.Config {
	t.Helper()
	env := imageEnv(t)
	for key, value := range s.Environment {
		if key == "CONFIG_PATH" {
			if !slices.Contains(s.Volumes, "./deploy/targets.yaml:"+value+":ro") {
				t.Errorf("%s: nothing is at %s", name, value)
			}
			value = "../../deploy/targets.yaml"
		}
		env = append(env, key+"="+value)
	}
	cfg, warnings, err := node.FromEnv(env, "host")
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %v, %v", name, warnings, err)
	}
	return cfg
}

// imageEnv is what the image sets.
func imageEnv(t *testing.T) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(readFile(t, "../../deploy/Dockerfile"))
	if m == nil {
		t.Fatal("the image sets nothing")
	}
	return strings.Fields(m[1])
}

// commandOf fails the test if there is no such command.
func commandOf(t *testing.T, where string, words []string) {
	t.Helper()
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	if len(words) == 0 || words[0] != "aquifer" && words[0] != "/usr/bin/aquifer" {
		t.Fatalf("%s: %q is no command of ours", where, words)
	}
	if _, err := parser.Parse(words[1:]); err != nil {
		t.Errorf("%s: %q: %v", where, words, err)
	}
}

// The image is compiled as the module asks for, checks its health with a command that there is, and sets
// what a node knows.
func TestImage(t *testing.T) {
	file, mod := readFile(t, "../../deploy/Dockerfile"), readFile(t, "../../go.mod")
	compiler := regexp.MustCompile(`(?m)^ARG GO=(.*)$`).FindStringSubmatch(file)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mod)
	if compiler == nil || language == nil || compiler[1] != language[1] {
		t.Errorf("the image is compiled by Go %q, the module asks for %q", compiler, language)
	}
	check := regexp.MustCompile(`(?m)^HEALTHCHECK .* CMD \[(.*)\]$`).FindStringSubmatch(file)
	if check == nil {
		t.Fatal("no health check")
	}
	var words []string
	for word := range strings.SplitSeq(check[1], ",") {
		words = append(words, strings.Trim(strings.TrimSpace(word), `"`))
	}
	commandOf(t, "deploy/Dockerfile", words)
	cfg, warnings, err := node.FromEnv(imageEnv(t), "host")
	if err != nil || len(warnings) > 0 || cfg.Listen != ":8080" || !strings.HasPrefix(cfg.DBPath, "/data/") {
		t.Errorf("listens at %s, stores in %s; %v, %v", cfg.Listen, cfg.DBPath, warnings, err)
	}
}

// The reference of deploy names services, settings and files that there are.
func TestDeployReadme(t *testing.T) {
	text, file := readFile(t, "../../deploy/README.md"), readCompose(t)
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the service %s is not described", name)
		}
	}
	for _, m := range regexp.MustCompile(`docker compose (?:--profile \w+ )?(?:exec|kill|start|stop|logs|restart)((?: -\S+)*(?: [a-z]+-?\d?)+)`).FindAllStringSubmatch(text, -1) {
		first := slices.DeleteFunc(strings.Fields(m[1]), func(w string) bool { return strings.HasPrefix(w, "-") })[0]
		if _, there := file.Services[first]; !there {
			t.Errorf("%q: there is no service %s", m[0], first)
		}
	}
}
