package node

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustConfig(t testing.TB, environ ...string) Config {
	t.Helper()
	c, warnings, err := FromEnv(environ, "host-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Fatalf("warnings: %v", warnings)
	}
	return c
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aquifer.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func problemsOf(t *testing.T, environ ...string) []Problem {
	t.Helper()
	c, _, err := FromEnv(environ, "host-1")
	var bad *ConfigError
	if !errors.As(err, &bad) {
		t.Fatalf("got error %v, want a *ConfigError", err)
	}
	if !reflect.DeepEqual(c, Config{}) {
		t.Error("a refused configuration was returned")
	}
	return bad.Problems
}

// checkRefusal wants the last variable alone to be wrong, and that to be put into these words.
func checkRefusal(t *testing.T, says string, environ ...string) {
	t.Helper()
	name, _, _ := strings.Cut(environ[len(environ)-1], "=")
	if got, want := problemsOf(t, environ...), about(name, says); len(got) != 1 || got[0].String() != want {
		t.Errorf("%q: got %q, want %q", environ, got, want)
	}
}

// about is what is said of a name: that it must be something, or what is wrong there.
func about(name, says string) string {
	if strings.HasPrefix(says, "must ") {
		return name + " " + says
	}
	return name + ": " + says
}

func TestDefaults(t *testing.T) {
	c := mustConfig(t)
	pace := Target{RPS: 2, MaxConcurrent: 1, Timeout: 2 * time.Minute}
	want := Config{
		Listen: ":8080", Port: 8080, NodeID: "host-1", DBPath: "aquifer.db",
		Pebble:     PebbleConfig{WALSyncIntervalMS: 5, FlushIntervalMS: 100, CacheMB: 64},
		DBMaxBytes: Auto, MaxSyncLagMS: 1000, MaxBodyBytes: 1 << 20, MemoryLimitMB: Auto, RetryAfterSeconds: 5,
		Pacing: PacingConfig{
			AccountQueue: "on", HintTTLSeconds: 30, IdleTimeoutSeconds: 300, MaxPendingPerUpstream: 10_000, MaxPendingWebhooks: 1000,
		},
		Proxy:   ProxyConfig{DirectSeconds: 3},
		Breaker: BreakerConfig{RetryMultiplier: 3, CooldownSeconds: 5},
		Inbound: InboundConfig{BenchmarkRPS: 400, StartPercent: 40},
		Drain:   DrainConfig{Sink: "webhook", TimerSeconds: 45, BatchSeconds: 60, BatchMaxEvents: 1000},
		Cluster: ClusterConfig{
			Provider: "static", SelfID: "host-1", MaxActiveUsers: 100, PruneTTLSeconds: 30, GossipBind: ":7946",
			ValkeyPrefix: "aqueduct:", ValkeyTimeoutMS: 50, HeartbeatSecs: 5, InstanceTTLSecs: 15, IdleSecs: 300,
		},
		Remote: RemoteConfig{
			TimeoutMS: 25, IdempotencyPrefix: "aqueduct:idempotency:", TTLSeconds: 7200, ResultPrefix: "aqueduct:result:", ResultMaxBytes: 65536,
		},
		AttemptTimeoutSeconds: 120, RetryMaxBackoffSeconds: 300, RetryAfterMaxSeconds: 3600,
		MaxResponseBytes: 16 << 20, Egress: "any",
		ResultMaxBytes: 64 << 10, QueuedTTLSeconds: 86400, CompletedTTLSeconds: 1800, FailedTTLSeconds: 7200,
		StreamDeliveryWaitMS: 2000, StreamMaxSeconds: 3600,
		Registry:               RegistryConfig{IntervalSeconds: 15},
		ShutdownTimeoutSeconds: 30, ShutdownQuiesceMS: 500, Log: "auto", LogLevel: "info",
		Targets:  Targets{Default: pace, Hosts: map[string]Target{}},
		Webhooks: Targets{Default: pace, Hosts: map[string]Target{}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if got := c.Pebble.FlushInterval() + c.QueuedTTL(); got != 24*time.Hour+100*time.Millisecond {
		t.Errorf("durations have the wrong unit: %v", got)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		environ      []string
		listen, node string
	}{
		{nil, ":8080", "host-1"},
		{[]string{"PORT=9"}, ":9", "host-1"},
		{[]string{"PORT=9", "AQUIFER_LISTEN=127.0.0.1:0"}, "127.0.0.1:0", "host-1"},
		{[]string{"PORT=", "AQUIFER_LISTEN=", "FLY_MACHINE_ID="}, ":8080", "host-1"},
		{[]string{"FLY_MACHINE_ID=e28"}, ":8080", "e28"},
		{[]string{"FLY_MACHINE_ID=e28", "AQUIFER_NODE_ID=n.1"}, ":8080", "n.1"},
	} {
		if c := mustConfig(t, tt.environ...); c.Listen != tt.listen || c.NodeID != tt.node {
			t.Errorf("%v: listens on %q as %q", tt.environ, c.Listen, c.NodeID)
		}
	}
}

func TestBooleans(t *testing.T) {
	for value, want := range map[string]bool{
		"1": true, "true": true, "TRUE": true, "Yes": true, "0": false, "false": false, "False": false, "NO": false, "": false,
	} {
		if c := mustConfig(t, "AQUIFER_IDEMPOTENCY_STRICT="+value); c.IdempotencyStrict != want {
			t.Errorf("%q is %v", value, c.IdempotencyStrict)
		}
	}
}

// What is wrong is said with name, rule and value, each of them once.
func TestBadValues(t *testing.T) {
	const number, hosts = "must be a whole number", "must be a list of host names without scheme, port or wildcard"
	for _, tt := range []struct{ variable, says string }{
		{"AQUIFER_IDEMPOTENCY_STRICT=on", `must be 1, true, yes, 0, false or no, got "on"`},
		{"AQUIFER_IDEMPOTENCY_STRICT= true", `must be 1, true, yes, 0, false or no, got " true"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=five", number + `, got "five"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=0", number + `, 1 to 60, got "0"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=1.5", number + `, got "1.5"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=+5", number + `, got "+5"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=5 ", number + `, got "5 "`},
		{"AQUIFER_RETRY_AFTER_SECONDS=0x5", number + `, got "0x5"`},
		{"AQUIFER_RETRY_AFTER_SECONDS=99999999999999999999", number + `, got "99999999999999999999"`},
		{"AQUIFER_FOLLOW_REDIRECTS=6", number + `, 0 to 5, got "6"`},
		{"AQUIFER_MAX_BODY_BYTES=-1", number + `, at least 0, got "-1"`},
		{"AQUIFER_MEMORY_LIMIT_MB=-1", `must be auto or a whole number of at least 0, got "-1"`},
		{"AQUIFER_MEMORY_LIMIT_MB=half", `must be auto or a whole number of at least 0, got "half"`},
		{"AQUIFER_SHUTDOWN_TIMEOUT_SECONDS=0", number + `, 1 to 3600, got "0"`},
		{"AQUIFER_SHUTDOWN_QUIESCE_MS=30000", `must be less than AQUIFER_SHUTDOWN_TIMEOUT_SECONDS (30), got "30000"`},
		{
			"AQUIFER_MAX_SYNC_LAG_MS=100",
			`must be 0 or above AQUIFER_PEBBLE_FLUSH_INTERVAL_MS (100), else new jobs are always refused, got "100"`,
		},
		{"AQUIFER_PROXY_DIRECT_ATTEMPT_TIMEOUT_SECONDS=0", number + `, 1 to 600, got "0"`},
		{"AQUIFER_PROXY_BREAKER_RETRY_MULTIPLIER=0", number + `, 1 to 100, got "0"`},
		{"AQUIFER_PROXY_BREAKER_RETRY_MULTIPLIER=2.5", number + `, got "2.5"`},
		{"AQUIFER_PROXY_BREAKER_DEFAULT_COOLDOWN_SECONDS=0", number + `, 1 to 3600, got "0"`},
		{"AQUIFER_EGRESS=private", `must be one of any, public, got "private"`},
		{"AQUIFER_LOG=xml", `must be one of auto, json, text, got "xml"`},
		{"AQUIFER_LOG_LEVEL=loud", `must be one of debug, info, warn, error, got "loud"`},
		{"PORT=http", number + `, got "http"`},
		{"PORT=65536", number + `, 1 to 65535, got "65536"`},
		{"AQUIFER_LISTEN=8080", `must be host:port with a port from 0 to 65535, got "8080"`},
		{"AQUIFER_LISTEN=:99999", `must be host:port with a port from 0 to 65535, got ":99999"`},
		{"AQUIFER_DEBUG_ADDR=localhost", `must be host:port with a port from 0 to 65535, got "localhost"`},
		{"AQUIFER_NODE_ID=a\r\nb", `must be 1 to 128 visible ASCII characters without "," and "=", got "a\r\nb"`},
		{"AQUIFER_NODE_ID=a=b", `must be 1 to 128 visible ASCII characters without "," and "=", got "a=b"`},
		{"AQUIFER_CLUSTER_SELF_ID=a b", `must be 1 to 128 visible ASCII characters without "," and "=", got "a b"`},
		{"AQUIFER_PEER_SECRET=,", `must be a list with an entry, or empty, got ","`},
		{"AQUIFER_PEER_SECRET=  ", `must be a list with an entry, or empty, got "  "`},
		{"AQUIFER_CLUSTER_GOSSIP_KEY= , ,", `must be a list with an entry, or empty, got " , ,"`},
		{"AQUIFER_ALLOWED_URL_DOMAINS=,", `must be a list with an entry, or empty, got ","`},
		{"AQUIFER_NODE_ID=" + strings.Repeat("n", 129), `must be 1 to 128 visible ASCII characters without "," and "=", got "` + strings.Repeat("n", 129) + `"`},
		{"AQUIFER_ALLOWED_URL_DOMAINS=a.example,https://b.example", hosts + `, got "https://b.example"`},
		{"AQUIFER_ALLOWED_URL_DOMAINS=*.example", hosts + `, got "*.example"`},
		{"AQUIFER_ALLOWED_WEBHOOK_DOMAINS=b.example:443", hosts + `, got "b.example:443"`},
		{"AQUIFER_REGISTRY_URL=canalis:8080/x", `must be an absolute http or https URL without credentials and fragment, got "canalis:8080/x"`},
		{"AQUIFER_REGISTRY_INTERVAL_SECONDS=0", number + `, 1 to 3600, got "0"`},
		{"AQUIFER_EGRESS_ALLOW=10.0.0.0/33", `must be a list of host names, addresses or CIDRs, got "10.0.0.0/33"`},
		{"CONFIG_PATH=/no/such/file", "open /no/such/file: no such file or directory"},
	} {
		checkRefusal(t, tt.says, tt.variable)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	path := writeFile(t, "defaults: {rps: 0}\nwebhooks: {max_concurrent: 0}\n")
	_, _, err := FromEnv([]string{"PORT=x", "AQUIFER_LOG=y", "AQUIFER_EGRESS_ALLOW=/", "CONFIG_PATH=" + path}, "")
	want := fmt.Sprintf(`the configuration is not valid:
  PORT must be a whole number, got "x"
  AQUIFER_LOG must be one of auto, json, text, got "y"
  AQUIFER_NODE_ID must be 1 to 128 visible ASCII characters without "," and "=", got ""
  AQUIFER_EGRESS_ALLOW must be a list of host names, addresses or CIDRs, got "/"
  defaults.rps in %[1]s must be a number from 0.001 to 1000000000, got "0"
  webhooks.max_concurrent in %[1]s must be a whole number, 1 to 65536, got "0"`, path)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestLists(t *testing.T) {
	c := mustConfig(t, "AQUIFER_ALLOWED_URL_DOMAINS= API.example , ,b.example,::1", "AQUIFER_EGRESS_ALLOW=10.0.0.0/8,fd00::/8,db.internal,::1")
	if got := strings.Join(c.AllowedURLDomains, "|"); got != "api.example|b.example|::1" {
		t.Errorf("domains are %q", got)
	}
	if got := strings.Join(c.EgressAllow, "|"); got != "10.0.0.0/8|fd00::/8|db.internal|::1" {
		t.Errorf("exempt is %q", got)
	}
}

func TestUnknownNames(t *testing.T) {
	_, warnings, err := FromEnv([]string{
		"AQUIFER_MAX_BODY_BYTE=1", "AQUIFER_LOGLEVEL=info", "AQUIFER_A2A_ENABLED=1", "AQUIFER_STORE_BACKEND=pebble",
		"AQUIFER_IDLE_TIMEOUT_SECONDS=300", "AQUIFERS=1", "AQUIFER_FOO=1", "HOME=/", "AQUIFER_LOG=json",
		"AQUIFER_PROXY_DIRECT_ATTEMPT_TIMEOUT_SECONDS=3", "AQUIFER_PROXY_BREAKER_RETRY_MULTIPLIER=3",
	}, "h")
	if err != nil {
		t.Fatal(err)
	}
	want := []Warning{
		{"AQUIFER_A2A_ENABLED", "this build does not support it; it has no effect"},
		{"AQUIFER_FOO", "nobody knows this name"},
		{"AQUIFER_LOGLEVEL", "nobody knows this name; the nearest known one is AQUIFER_LOG_LEVEL"},
		{"AQUIFER_MAX_BODY_BYTE", "nobody knows this name; the nearest known one is AQUIFER_MAX_BODY_BYTES"},
		{"AQUIFER_STORE_BACKEND", "this build does not support it; it has no effect"},
	}
	if !reflect.DeepEqual(warnings, want) {
		t.Errorf("got %v", warnings)
	}
	for _, s := range new(Config).settings() {
		if ofAnotherBuild(s.name) {
			t.Errorf("%s is known and said to be of another build", s.name)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching("[A-C_]{0,8}")
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if distance(a, b) != distance(b, a) || distance(a, c) > distance(a, b)+distance(b, c) || (distance(a, b) == 0) != (a == b) {
			t.Errorf("not a distance: %q %q %q", a, b, c)
		}
	})
}

// Secrets stay hidden wherever a setting is shown.
func TestSecretsAreRedacted(t *testing.T) {
	tree := struct {
		Set   string `env:"AQUIFER_A" secret:"true" oneof:"x,y"`
		Unset string `env:"AQUIFER_B" secret:"true"`
		Open  string `env:"AQUIFER_C"`
		User  string `env:"AQUIFER_D" secret:"url"`
		None  string `env:"AQUIFER_E" secret:"url"`
	}{Set: "hunter2", Open: "shown", User: "http://hunter2@host/", None: "http://host/"}
	var got []string
	for _, s := range leaves(reflect.ValueOf(tree), "") {
		got = append(got, s.text())
	}
	if !slices.Equal(got, []string{"[redacted]", "", "shown", "[redacted]@host/", "http://host/"}) {
		t.Errorf("shown as %q", got)
	}
	bad := problemsOf(t, "AQUIFER_REGISTRY_URL=http://me:hunter2@canalis/register")
	if len(bad) != 1 || bad[0].Value != "[redacted]@canalis/register" {
		t.Errorf("refused with %v", bad)
	}
}

// What Print writes is an environment that makes the same configuration.
func TestPrintRoundTrip(t *testing.T) {
	path := writeFile(t, "defaults: {rps: 0.5}\nupstreams: {API.example: {rps: 1000, timeout: 0}}\nwebhooks: {max_concurrent: 9}\n")
	c := mustConfig(t, "CONFIG_PATH="+path, "AQUIFER_ALLOWED_URL_DOMAINS=a.example, b.example", "AQUIFER_MEMORY_LIMIT_MB=0",
		"AQUIFER_SHARED_IDEMPOTENCY_ENABLED=yes", "AQUIFER_NODE_ID=n1")
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	var environ []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "#") {
			environ = append(environ, strings.TrimSuffix(line, "\n"))
		}
	}
	if again := mustConfig(t, environ...); !reflect.DeepEqual(again, c) {
		t.Errorf("got  %+v\nwant %+v", again, c)
	}
	for _, line := range []string{
		"#   defaults: {rps: 0.5, max_concurrent: 1, timeout: 120, slow_start: false, share_by: dispatch}\n#   api.example: {rps: 1000, max_concurrent: 1, timeout: 0, slow_start: false, share_by: dispatch}\n",
		"#   defaults: {rps: 0.5, max_concurrent: 9, timeout: 120, slow_start: false, share_by: dispatch}\n#   api.example: {rps: 1000, max_concurrent: 9, timeout: 0, slow_start: false, share_by: dispatch}\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%s\nlacks %s", &out, line)
		}
	}
}

func TestPrintReturnsTheWritersError(t *testing.T) {
	c := mustConfig(t)
	if err := c.Print(failing{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestValidateOfAHandMadeConfig(t *testing.T) {
	if err := new(Config).Validate(); err == nil {
		t.Error("the zero Config is valid")
	}
	c := mustConfig(t)
	c.Targets.Hosts["api.example"] = Target{RPS: math.NaN(), MaxConcurrent: 1}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Targets.api.example.rps must be a number from 0.001") {
		t.Errorf("got %v", err)
	}
	c = mustConfig(t)
	c.Webhooks.Hosts["API.example:80"] = c.Webhooks.Default
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `Webhooks.Hosts must be by job.HostOf, which is "api.example", got "API.example:80"`) {
		t.Errorf("got %v", err)
	}
}

// Every variable says what it does, and a number in which unit or range.
func TestEveryVariableIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range new(Config).settings() {
		if s.section == "" || s.doc == "" || !strings.HasSuffix(s.doc, ".") || strings.Contains(s.doc, "|") || seen[s.name] {
			t.Errorf("%s needs a section and a sentence, and must be there once: %+v", s.name, s)
		}
		if s.value.CanInt() && s.bounds() == "" && s.value.Type() != reflect.TypeFor[AutoInt]() {
			t.Errorf("%s needs a range", s.name)
		}
		if s.value.Kind() == reflect.Slice && s.unit == "" {
			t.Errorf("%s needs a word for its entries", s.name)
		}
		seen[s.name] = true
	}
}
