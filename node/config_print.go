package node

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Print writes the effective configuration: the variables in the form that an environment file has,
// secrets redacted, and behind them, as comments, what the YAML file makes of each target.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	section := ""
	for _, s := range c.settings() {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "# %s\n", section)
		}
		fmt.Fprintf(&b, "%s=%s\n", s.name, s.text())
	}
	c.Targets.print(&b, "Targets")
	c.Webhooks.print(&b, "Webhook receivers")
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Targets) print(b *strings.Builder, heading string) {
	fmt.Fprintf(b, "# %s\n", heading)
	line := func(host string, t Target) {
		by := shareByDispatch
		if t.ShareByUse {
			by = shareByUse
		}
		fmt.Fprintf(b, "#   %s: {rps: %s, max_concurrent: %d, timeout: %.0f, slow_start: %t, share_by: %s}\n",
			host, strconv.FormatFloat(t.RPS, 'f', -1, 64), t.MaxConcurrent, t.Timeout.Seconds(), t.SlowStart, by)
	}
	line("defaults", t.Default)
	for _, host := range slices.Sorted(maps.Keys(t.Hosts)) {
		line(host, t.Hosts[host])
	}
}

// Reference returns every variable as Markdown tables, one for each section.
func Reference() string {
	var b strings.Builder
	section := ""
	for _, s := range new(Config).settings() {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "\n### %s\n\n| Variable | Default | Values | Meaning |\n|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, s.shownDefault(), s.values(), s.doc)
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func (s setting) shownDefault() string {
	if s.fallback == "" {
		return "–"
	}
	return "`" + s.fallback + "`"
}

// values says what the setting may be.
func (s setting) values() string {
	switch s.value.Interface().(type) {
	case bool:
		return "`true`, `false`"
	case AutoInt:
		return "`auto`, " + s.unit
	case []string:
		return "list of " + s.unit
	}
	if len(s.oneof) > 0 {
		return "`" + strings.Join(s.oneof, "`, `") + "`"
	}
	return cmp.Or(strings.TrimSpace(s.bounds()+" "+s.unit), "text")
}
