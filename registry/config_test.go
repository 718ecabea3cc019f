package registry_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/registry"
)

// Everything that is wrong is named at once, and no password is told.
func TestNewNamesSettings(t *testing.T) {
	for _, tt := range []struct {
		url, port string
		interval  time.Duration
		problems  int
		want      []string
	}{
		{"http://canalis/register", "0", 0, 1, []string{"AQUIFER_LISTEN or PORT must be a port from 1 to 65535, got \"0\""}},
		{"canalis:8080", "80", time.Second, 1, []string{"AQUIFER_REGISTRY_URL must be an absolute URL"}},
		{"http://u:hunter2@can alis/", "80", 0, 1, []string{`AQUIFER_REGISTRY_URL must be`}},
		{"http://canalis/", "80", time.Second - 1, 1, []string{`AQUIFER_REGISTRY_INTERVAL_SECONDS must be at least 1, got "999.999999ms"`}},
		{"", "http", -time.Second, 3, []string{
			`AQUIFER_REGISTRY_URL must be`, `AQUIFER_REGISTRY_INTERVAL_SECONDS must be at least 1, got "-1s"`, `AQUIFER_LISTEN or PORT must be`,
		}},
	} {
		_, err := registry.New(registry.Config{URL: tt.url, Port: tt.port, Interval: tt.interval, Transport: http.DefaultTransport})
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Count(err.Error(), "\n")+1 != tt.problems {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want %s", err, want)
			}
		}
	}
	if _, err := registry.New(registry.Config{URL: "http://canalis", Port: "80"}); err == nil || !strings.Contains(err.Error(), "Transport") {
		t.Errorf("without a transport: %v", err)
	}
}

func TestAdvertisedPort(t *testing.T) {
	for _, tt := range []struct {
		bound net.Addr
		want  string // empty: an error
	}{
		{&net.TCPAddr{IP: net.IPv6zero, Port: 8080}, "8080"},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, "1"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 65535}, "65535"},
		{&net.TCPAddr{}, ""},
		{&net.UnixAddr{Net: "unix", Name: "/run/aquifer.sock"}, ""},
		{&net.UnixAddr{Net: "unix", Name: "/run/a:80x"}, ""},
		{nil, ""},
	} {
		got, err := registry.AdvertisedPort(tt.bound)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v: %q, %v", tt.bound, got, err)
		}
		if err != nil {
			for _, name := range []string{"AQUIFER_LISTEN", "PORT", "AQUIFER_REGISTRY_URL", "got "} {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not say %s", err, name)
				}
			}
		}
	}
}
