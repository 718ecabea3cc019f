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
  "[0::1]:9000": {max_concurrent: 5}
  secure.example.:443: {rps: 7}
  "127.1:08080": {rps: 8}
  empty.example:
webhooks: {max_concurrent: 8}
`))
	for host, want := range map[string]Target{
		"api.example":      {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"API.EXAMPLE":      {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"localhost:9000":   {RPS: 3, MaxConcurrent: 1},
		"[::1]:9000":       {RPS: 3, MaxConcurrent: 5, Timeout: 7 * time.Second},
		"empty.example":    {RPS: 3, MaxConcurrent: 1, Timeout: 7 * time.Second},
		"[::1]:09000":      {RPS: 3, MaxConcurrent: 5, Timeout: 7 * time.Second},
		"api.example:443":  {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"Api.Example.:080": {RPS: 50, MaxConcurrent: 20, Timeout: 300 * time.Second},
		"api.example:8080": {RPS: 3, MaxConcurrent: 1, Timeout: 7 * time.Second},
		"secure.example":   {RPS: 7, MaxConcurrent: 1, Timeout: 7 * time.Second},
		"0x7f000001:8080":  {RPS: 8, MaxConcurrent: 1, Timeout: 7 * time.Second},
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

// What a block says of sharing holds for it and for what is below it.
func TestSharedTargets(t *testing.T) {
	c := mustConfig(t, "CONFIG_PATH="+writeFile(t, `
defaults: {shared: true}
upstreams:
  own.example: {shared: false}
  open.example: {rps: 9}
`))
	for host, want := range map[string]bool{"own.example": false, "open.example": true, "any.example": true} {
		if target, receiver := c.Targets.For(host).Shared, c.Webhooks.For(host).Shared; target != want || receiver != want {
			t.Errorf("%s: target %v, receiver %v, want %v", host, target, receiver, want)
		}
	}
	c = mustConfig(t, "CONFIG_PATH="+writeFile(t, "upstreams: {a.example: {shared: true}}\nwebhooks: {shared: false}"))
	if !c.Targets.For("a.example").Shared || c.Targets.For("b.example").Shared || c.Webhooks.For("a.example").Shared {
		t.Errorf("got %+v and %+v", c.Targets, c.Webhooks)
	}
	c = mustConfig(t, "CONFIG_PATH="+writeFile(t, "webhooks: {shared: true}"))
	if c.Targets.For("a.example").Shared || !c.Webhooks.For("a.example").Shared {
		t.Errorf("got %+v and %+v", c.Targets, c.Webhooks)
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
	const (
		rps, slots = "must be a number from 0.001 to 1000000000", "must be a whole number, 1 to 65536"
		seconds    = "must be whole seconds from 0 to 86400"
		host       = "the name must be host or host:port as in the URL"
	)
	for _, tt := range []struct{ text, where, says string }{
		{"defaults: [", "", "go-yaml load error in parser (while parsing a flow node) at L2.C1: did not find expected node content"},
		{"- rps: 1", "line 1", `must be a block of defaults, upstreams and webhooks, got "a list"`},
		{"default: {rps: 1}", "default", `the name must be one of defaults, upstreams, webhooks`},
		{"defaults:\n  rsp: 1", "defaults.rsp", `the name must be one of rps, max_concurrent, timeout, slow_start, share_by, shared`},
		{"webhooks: {rps: fast}", "webhooks.rps", rps + `, got "fast"`},
		{"upstreams: [a]", "upstreams", `must be a block with an entry for each host, got "a list"`},
		{"upstreams: {a.example: 5}", "upstreams.a.example", `must be a block of rps, max_concurrent, timeout, slow_start, share_by and shared, got "5"`},
		{"upstreams: {a: {rps: {b: 1}}}", "upstreams.a.rps", rps + `, got "a block"`},
		{"upstreams: {a: {timeout: 30s}}", "upstreams.a.timeout", seconds + `, got "30s"`},
		{"upstreams:\n  ? [a]\n  : {rps: 1}", "upstreams.", host},
		{"upstreams: {a: {rps: 1}, a: {rps: 2}}", "upstreams.a", `the name must be there once`},
		{
			"upstreams: {a.example: {rps: 1}, A.example: {rps: 2}}",
			"upstreams.a.example", `the name must be of another host than "A.example"`,
		},
		{"upstreams: {a.example: {rps: 1}, 'a.example.:443': {rps: 2}}", "upstreams.a.example.:443", `the name must be of another host than "a.example"`},
		{"upstreams: {'127.1:81': {rps: 1}, '[::ffff:127.0.0.1]:0081': {rps: 2}}", "upstreams.[::ffff:127.0.0.1]:0081", `the name must be of another host than "127.1:81"`},
		{"upstreams: {'a.example:65536': {rps: 1}}", "upstreams.a.example:65536", host},
		{"upstreams: {bücher.example: {rps: 1}}", "upstreams.bücher.example", host},
		{"defaults: {rps: 1}\n---\ndefaults: {rps: 2}", "", "it must be one document"},
		{"defaults: {rps: 1}\n---\n[", "", "it must be one document"},
		{"defaults: {rps: '2'}", "defaults.rps", rps + `, got "2"`},
		{"defaults: {max_concurrent: 1.5}", "defaults.max_concurrent", slots + `, got "1.5"`},
		{"defaults: {max_concurrent: 99999999999999999999}", "defaults.max_concurrent", slots + `, got "99999999999999999999"`},
		{"defaults: {slow_start: maybe}", "defaults.slow_start", `must be true or false, got "maybe"`},
		{"defaults: {shared: 3}", "defaults.shared", `must be true or false, got "3"`},
		{"upstreams: {a: {shared: all}}", "upstreams.a.shared", `must be true or false, got "all"`},
		{"webhooks: {shared: 'true'}", "webhooks.shared", `must be true or false, got "true"`},
		{"webhooks: {shared: [true]}", "webhooks.shared", `must be true or false, got "a list"`},
		{"shared: true", "shared", `the name must be one of defaults, upstreams, webhooks`},
		{"webhooks: {share_by: [use]}", "webhooks.share_by", `must be dispatch or use, got "a list"`},
		{"webhooks: {share_by: turns}", "webhooks.share_by", `must be dispatch or use, got "turns"`},
		{"defaults: {rps: 0}", "defaults.rps", rps + `, got "0"`},
		{"defaults: {rps: 1e-300}", "defaults.rps", rps + `, got "1e-300"`},
		{"defaults: {rps: -1}", "defaults.rps", rps + `, got "-1"`},
		{"defaults: {rps: .nan}", "defaults.rps", rps + `, got "NaN"`},
		{"defaults: {rps: .inf}", "defaults.rps", rps + `, got "+Inf"`},
		{"upstreams: {a: {max_concurrent: 0}}", "upstreams.a.max_concurrent", slots + `, got "0"`},
		{"webhooks: {timeout: -3}", "webhooks.timeout", seconds + `, got "-3"`},
		{"webhooks: {timeout: 9223372036854775807}", "webhooks.timeout", seconds + `, got "9223372036854775807"`},
		{"upstreams: {'https://a.example': {rps: 1}}", "upstreams.https://a.example", host},
		{"upstreams: {a.example/v1: {rps: 1}}", "upstreams.a.example/v1", host},
		{"upstreams: {'*': {rps: 1}}", "upstreams.*", host},
		{"upstreams: {'': {rps: 1}}", "upstreams.", host},
		{"upstreams: {'a:b': {rps: 1}}", "upstreams.a:b", host},
		{"upstreams: {'u@a.example': {rps: 1}}", "upstreams.u@a.example", host},
	} {
		path := writeFile(t, tt.text)
		want := about(tt.where+" in "+path, tt.says)
		if tt.where == "" { // the file as a whole
			want = about("CONFIG_PATH: "+path, tt.says)
		}
		if got := problemsOf(t, "CONFIG_PATH="+path); len(got) != 1 || got[0].String() != want {
			t.Errorf("%q: got %q, want %q", tt.text, got, want)
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

// What is printed of a target is all that holds for it.
func TestPrintShowsWholeTargets(t *testing.T) {
	path := writeFile(t, "upstreams: {api.example: {rps: 7, slow_start: true, share_by: use}}\n")
	var out strings.Builder
	c := mustConfig(t, "CONFIG_PATH="+path)
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#   api.example: {rps: 7, max_concurrent: 1, timeout: 120, slow_start: true, share_by: use}\n",
		"#   defaults: {rps: 2, max_concurrent: 1, timeout: 120, slow_start: false, share_by: dispatch}\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}
