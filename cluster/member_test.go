package cluster_test

import (
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// An address has one form, so that two members with one place are seen.
func TestParseAddress(t *testing.T) {
	for given, want := range map[string]string{
		"http://h":                      "http://h",
		"http://h/":                     "http://h",
		"http://h:80":                   "http://h",
		"https://h:443/":                "https://h",
		"http://h:443":                  "http://h:443",
		"https://h:80":                  "https://h:80",
		"http://h:08080":                "http://h:8080",
		"HTTP://Host.Example:8080":      "http://host.example:8080",
		"http://10.0.0.1:1":             "http://10.0.0.1:1",
		"http://10.0.0.1:65535":         "http://10.0.0.1:65535",
		"https://[FD00:0::1]:8443":      "https://[fd00::1]:8443",
		"http://[fd00::1]":              "http://[fd00::1]",
		"http://[fd00::1]:80":           "http://[fd00::1]",
		"http://[::ffff:10.0.0.1]:8080": "http://10.0.0.1:8080",
		"http://[fe80::1%25eth0]:8080":  "http://[fe80::1%25eth0]:8080",
		"http://node_1.my-net:8080":     "http://node_1.my-net:8080",
		"http://bücher.example:8080":    "http://bücher.example:8080",
	} {
		got, err := cluster.ParseAddress(given)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %s", given, got, err, want)
		}
		if again, err := cluster.ParseAddress(got); err != nil || again != got {
			t.Errorf("%s became %q, %v", got, again, err)
		}
	}
}

// What nobody can call is no address, and the message shows what was given.
func TestParseAddressRefuses(t *testing.T) {
	for given, rule := range map[string]string{
		"":                           "must begin with http:// or https://",
		"http:":                      "must have a host",
		"http://":                    "must have a host",
		"http:///":                   "must have a host",
		"http://:80":                 "must have a host",
		"http://h//":                 "nothing but scheme, host and port",
		"http://h:":                  "must have a port from 1 to 65535, or none",
		"http://127.0.0.1:/":         "must have a port from 1 to 65535, or none",
		"http://h:0":                 "must have a port from 1 to 65535, or none",
		"http://h:99999":             "must have a port from 1 to 65535, or none",
		"http://h:65536":             "must have a port from 1 to 65535, or none",
		"http://[::1]:":              "must have a port from 1 to 65535, or none",
		"http://0.0.0.0:8080":        "must have a host that other nodes can call",
		"http://0.0.0.0":             "must have a host that other nodes can call",
		"http://[::]:8080":           "must have a host that other nodes can call",
		"http://[0:0::0]:8080":       "must have a host that other nodes can call",
		"http://[::ffff:0.0.0.0]:80": "must have a host that other nodes can call",
		"http://*:80":                "must have a host that other nodes can call",
		"http://a*b":                 "must have a host that other nodes can call",
		"http://a,b:80":              "must have a host that other nodes can call",
		"http://224.0.0.1:8080":      "must have a host that other nodes can call",
		"http://[ff02::1]:8080":      "must have a host that other nodes can call",
		"http://[ff02::1%25eth0]:80": "must have a host that other nodes can call",
		"http://255.255.255.255":     "must have a host that other nodes can call",
	} {
		got, err := cluster.ParseAddress(given)
		if err == nil || !strings.Contains(err.Error(), rule) || !strings.HasSuffix(err.Error(), `got "`+given+`"`) {
			t.Errorf("%s: got %q, %v, want %s", given, got, err, rule)
		}
	}
}
