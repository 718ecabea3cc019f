package node

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	c := mustConfig(t, "AQUIFER_ATTEMPT_TIMEOUT_SECONDS=7", "CONFIG_PATH="+writeFile(t, `
defaults: {rps: 3}
upstreams:
  API.example: {rps: 50, max_concurrent: 20, timeout: 300}
  localhost:9000: {timeout: 0}
  "[::1]:9000": {max_concurrent: 5}
  empty.example:
webhooks: {max_concurrent: 8}
`))
	for host, want := range map[string]Target{
		"api.example":      {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"API.EXAMPLE":      {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"localhost:9000":   {RPS: 3, MaxConcurrent: 1},
		"[::1]:9000":       {RPS: 3, MaxConcurrent: 5, Timeout: 7 * time.Second},
		"empty.example":    {RPS: 3, MaxConcurrent: 1, Timeout: 7 * time.Second},
		"api.example:443":  {RPS: 3, MaxConcurrent: 1, Timeout: 7 * time.Second},
		"elsewhere.test:1": {RPS: 3, MaxConcurrent: 1, Timeout: 7 * time.Second},
	} {
		if got := c.Targets.For(host); got != want {
			t.Errorf("target %s: got %+v, want %+v", host, got, want)
		}
	}
	for host, want := range map[string]Target{
		"api.example":   {RPS: 50, MaxConcurrent: 8, Timeout: 300 * time.Second},
		"hooks.example": {RPS: 3, MaxConcurrent: 8, Timeout: 7 * time.Second},
	} {
		if got := c.Webhooks.For(host); got != want {
			t.Errorf("receiver %s: got %+v, want %+v", host, got, want)
		}
	}
}

func TestTimeoutOfTheDefaultsBeatsTheVariable(t *testing.T) {
	c := mustConfig(t, "AQUIFER_ATTEMPT_TIMEOUT_SECONDS=7", "CONFIG_PATH="+writeFile(t, "defaults: {timeout: 9}"))
	if got := c.Targets.For("x").Timeout; got != 9*time.Second {
		t.Errorf("got %v", got)
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "null", "{}", "defaults:\nupstreams:\nwebhooks:\n"} {
		if c := mustConfig(t, "CONFIG_PATH="+writeFile(t, text)); c.Targets.For("x").RPS != 2 {
			t.Errorf("%q: got %+v", text, c.Targets)
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"defaults: [", "must be a valid file ("},
		{"- rps: 1", `line 1 in FILE must be a block of defaults, upstreams and webhooks, got "a list"`},
		{"default: {rps: 1}", `default in FILE must be one of defaults, upstreams, webhooks, got "default"`},
		{"defaults:\n  rsp: 1", `defaults.rsp in FILE must be one of rps, max_concurrent, timeout, got "rsp"`},
		{"webhooks: {rps: fast}", `webhooks.rps in FILE must be a number above 0 and at most 1000000000, got "fast"`},
		{"upstreams: [a]", `upstreams in FILE must be a block with an entry for each host, got "a list"`},
		{"upstreams: {a.example: 5}", `upstreams.a.example in FILE must be a block of rps, max_concurrent and timeout, got "5"`},
		{"upstreams: {a: {rps: {b: 1}}}", `upstreams.a.rps in FILE must be a number above 0 and at most 1000000000, got "a block"`},
		{"upstreams: {a: {timeout: 30s}}", `upstreams.a.timeout in FILE must be whole seconds from 0 to 86400, got "30s"`},
		{"upstreams:\n  ? [a]\n  : {rps: 1}", "must be host or host:port as in the URL"},
		{"upstreams: {a: {rps: 1}, a: {rps: 2}}", `upstreams.a in FILE must be there once, got "a"`},
		{"upstreams: {a.example: {rps: 1}, A.example: {rps: 2}}", "upstreams.a.example in"},
		{"defaults: {rps: 1}\n---\ndefaults: {rps: 2}", "it must be one document"},
		{"defaults: {rps: 1}\n---\n[", "it must be one document"},
		{"defaults: {rps: '2'}", `defaults.rps in FILE must be a number above 0 and at most 1000000000, got "2"`},
		{"defaults: {max_concurrent: 1.5}", `defaults.max_concurrent in FILE must be a whole number, 1 to 65536, got "1.5"`},
		{"defaults: {max_concurrent: 99999999999999999999}", `a whole number, 1 to 65536, got "99999999999999999999"`},
		{"defaults: {rps: 0}", `defaults.rps in`},
		{"defaults: {rps: -1}", `must be a number above 0 and at most 1000000000, got "-1"`},
		{"defaults: {rps: .nan}", `got "NaN"`},
		{"defaults: {rps: .inf}", `got "+Inf"`},
		{"upstreams: {a: {max_concurrent: 0}}", `upstreams.a.max_concurrent in`},
		{"webhooks: {timeout: -3}", `webhooks.timeout in FILE must be whole seconds from 0 to 86400, got "-3"`},
		{"webhooks: {timeout: 9223372036854775807}", `whole seconds from 0 to 86400, got "9223372036854775807"`},
		{"upstreams: {'https://a.example': {rps: 1}}", "must be host or host:port as in the URL"},
		{"upstreams: {a.example/v1: {rps: 1}}", "must be host or host:port as in the URL"},
		{"upstreams: {'': {rps: 1}}", "must be host or host:port as in the URL"},
		{"upstreams: {'a:b': {rps: 1}}", "must be host or host:port as in the URL"},
		{"upstreams: {'u@a.example': {rps: 1}}", "must be host or host:port as in the URL"},
	} {
		path := writeFile(t, tt.text)
		problems := problemsOf(t, "CONFIG_PATH="+path)
		if len(problems) != 1 || !strings.Contains(problems[0].String(), strings.ReplaceAll(tt.want, "FILE", path)) {
			t.Errorf("%q: got %v, want %q", tt.text, problems, tt.want)
		}
	}
}

func TestEveryProblemOfAFileIsListed(t *testing.T) {
	problems := problemsOf(t, "CONFIG_PATH="+writeFile(t, "defaults: {rsp: 1}\nwebhooks: {rps: fast, timeout: 30s}"))
	if len(problems) != 3 {
		t.Errorf("got %v", problems)
	}
}

func checkTarget(t *testing.T, what string, got Target) {
	t.Helper()
	if !(got.RPS > 0 && got.RPS <= maxRPS) || got.MaxConcurrent < 1 || got.Timeout < 0 || got.Timeout > maxTimeout {
		t.Errorf("%s is %+v", what, got)
	}
}

// FuzzTargetsFile: whatever stands in the file, it is refused or every pace in it can be kept.
func FuzzTargetsFile(f *testing.F) {
	f.Add("defaults: {rps: 2, max_concurrent: 1, timeout: 120}\nupstreams: {a:1: {rps: 3}}\nwebhooks: {rps: .5}")
	f.Add("defaults: &a {rps: 1e3}\nwebhooks: *a")
	f.Add("upstreams: {<<: {a: {rps: 1}}}")
	f.Add("defaults: {rps: .nan}\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := decodeTargets([]byte(text))
		if err != nil || len(file.problems()) > 0 {
			return
		}
		for what, of := range map[string]Targets{"target": first(file.resolve(time.Second)), "receiver": second(file.resolve(time.Second))} {
			checkTarget(t, what, of.Default)
			for host := range of.Hosts {
				checkTarget(t, what+" "+host, of.For(strings.ToUpper(host)))
			}
		}
	})
}

func first[A, B any](a A, _ B) A  { return a }
func second[A, B any](_ A, b B) B { return b }

// FuzzFromEnv: a variable of any value makes a valid configuration or a *ConfigError that says so.
func FuzzFromEnv(f *testing.F) {
	for _, s := range new(Config).settings() {
		f.Add(s.name, s.fallback)
	}
	f.Add("AQUIFER_EGRESS_ALLOW", "10.0.0.0/8,::1,%")
	f.Fuzz(func(t *testing.T, name, value string) {
		if name == "CONFIG_PATH" {
			t.Skip("a fuzzer must not open what it likes")
		}
		c, _, err := FromEnv([]string{name + "=" + value}, "h")
		var bad *ConfigError
		if err != nil {
			if !errors.As(err, &bad) || len(bad.Problems) == 0 {
				t.Fatalf("got %v", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("accepted, but: %v", err)
		}
	})
}
