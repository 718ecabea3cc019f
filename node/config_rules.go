package node

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// setting is one leaf of the tree: a variable with what its tags say about it.
type setting struct {
	section, name, fallback, unit, doc string
	min, max                           string // empty: no bound
	oneof                              []string
	secret                             string // "true": all of it; "url": what may be one in a URL
	value                              reflect.Value
}

// settings lists the leaves of the tree in the order in which they are declared.
func (c *Config) settings() []setting { return leaves(reflect.ValueOf(c).Elem(), "") }

// leaves lists the settings of a tree of structs.
func leaves(tree reflect.Value, section string) []setting {
	var list []setting
	for f, v := range tree.Fields() {
		tag := f.Tag
		section = cmp.Or(tag.Get("section"), section)
		switch name := tag.Get("env"); name {
		case "-":
		case "":
			list = append(list, leaves(v, section)...)
		default:
			s := setting{
				section: section, name: name, value: v,
				fallback: cmp.Or(tag.Get("envDefault"), tag.Get("default")),
				unit:     tag.Get("unit"), doc: tag.Get("doc"),
				min: tag.Get("min"), max: tag.Get("max"),
				secret: tag.Get("secret"),
			}
			if names := tag.Get("oneof"); names != "" {
				s.oneof = strings.Split(names, ",")
			}
			list = append(list, s)
		}
	}
	return list
}

// problems lists what breaks the rules of the tags and those between settings.
func (c *Config) problems() []Problem {
	var list []Problem
	for _, s := range c.settings() {
		if rule := s.broken(); rule != "" {
			list = append(list, Problem{Name: s.name, Rule: rule, Value: s.text()})
		}
	}
	return slices.Concat(list, c.formats(), c.relations(), c.clusterProblems(), c.Drain.problems(), c.remoteProblems(), c.valkeyProblems())
}

// broken returns the rule of its tags that the setting breaks, or "".
func (s setting) broken() string {
	switch {
	case s.value.CanInt():
		n := s.value.Int()
		if low, err := strconv.ParseInt(s.min, 10, 64); err == nil && n < low {
			return "a whole number, " + s.bounds()
		}
		if high, err := strconv.ParseInt(s.max, 10, 64); err == nil && n > high {
			return "a whole number, " + s.bounds()
		}
	case len(s.oneof) > 0 && !slices.Contains(s.oneof, s.value.String()):
		return "one of " + strings.Join(s.oneof, ", ")
	}
	return ""
}

// bounds says in words what the tags allow a number to be; "" if they allow everything.
func (s setting) bounds() string {
	switch {
	case s.min != "" && s.max != "":
		return s.min + " to " + s.max
	case s.min != "":
		return "at least " + s.min
	default:
		return ""
	}
}

// text is the setting's value as it stands in a variable, never a secret.
func (s setting) text() string {
	switch v := s.value.Interface().(type) {
	case []string:
		return s.redact(strings.Join(v, ","))
	default:
		return s.redact(fmt.Sprint(v))
	}
}

func (s setting) redact(text string) string {
	switch {
	case s.secret == "true" && text != "":
		return job.Redacted
	case s.secret == "url":
		return shownURL(text)
	default:
		return text
	}
}

// formats checks the texts that must have a form.
func (c *Config) formats() []Problem {
	var list []Problem
	check := func(ok bool, name, rule, value string) {
		if !ok {
			list = append(list, Problem{Name: name, Rule: rule, Value: value})
		}
	}
	const address = "host:port with a port from 0 to 65535"
	// An address made of a bad PORT has been reported already.
	check(hostPort(c.Listen) || c.Listen == portOnly(c.Port), "AQUIFER_LISTEN", address, c.Listen)
	check(c.DebugAddr == "" || hostPort(c.DebugAddr), "AQUIFER_DEBUG_ADDR", address, c.DebugAddr)
	check(cluster.CheckID(c.NodeID) == nil, "AQUIFER_NODE_ID", cluster.IDRule, c.NodeID)
	check(c.Registry.URL == "" || validURL(c.Registry.URL), "AQUIFER_REGISTRY_URL", urlRule, shownURL(c.Registry.URL))
	const domain = "a list of host names without scheme, port or wildcard"
	for _, d := range c.AllowedURLDomains {
		check(hostName(d), "AQUIFER_ALLOWED_URL_DOMAINS", domain, d)
	}
	for _, d := range c.AllowedWebhookDomains {
		check(hostName(d), "AQUIFER_ALLOWED_WEBHOOK_DOMAINS", domain, d)
	}
	for _, a := range c.EgressAllow {
		_, err := netip.ParsePrefix(a)
		check(err == nil || hostName(a), "AQUIFER_EGRESS_ALLOW", "a list of host names, addresses or CIDRs", a)
	}
	return list
}

// relations checks the settings that bound each other.
func (c *Config) relations() []Problem {
	var list []Problem
	if c.MaxSyncLagMS > 0 && c.MaxSyncLagMS <= c.Pebble.FlushIntervalMS {
		list = append(list, Problem{
			Name:  "AQUIFER_MAX_SYNC_LAG_MS",
			Rule:  fmt.Sprintf("0 or above AQUIFER_PEBBLE_FLUSH_INTERVAL_MS (%d), else new jobs are always refused", c.Pebble.FlushIntervalMS),
			Value: strconv.Itoa(c.MaxSyncLagMS),
		})
	}
	if c.ShutdownTimeoutSeconds > 0 && c.ShutdownQuiesce() >= c.ShutdownTimeout() {
		list = append(list, Problem{
			Name:  "AQUIFER_SHUTDOWN_QUIESCE_MS",
			Rule:  fmt.Sprintf("less than AQUIFER_SHUTDOWN_TIMEOUT_SECONDS (%d)", c.ShutdownTimeoutSeconds),
			Value: strconv.Itoa(c.ShutdownQuiesceMS),
		})
	}
	return list
}

func portOnly(port int) string { return ":" + strconv.Itoa(port) }

func hostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

const hostChars = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// hostName reports whether s is an address or looks like a lower-case name in the DNS.
func hostName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return strings.Trim(s, hostChars) == "" && s == strings.Trim(s, ".-") && !strings.Contains(s, "..")
}
