package link_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

func TestGoodURLs(t *testing.T) {
	for _, u := range []string{
		"redis://host", "rediss://host:6380", "valkey://host/3", "valkeys://user:p%40ss@host:6379/0",
		"valkey://:password@host", "valkey://[fd00::1]:6379", "valkey://127.0.0.1",
		"valkey://a?addr=b:6380&addr=c", "valkey://sentinel:26379/1?master_set=main&sentinel_user=u&sentinel_password=p",
	} {
		if err := link.Check(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestBadURLs(t *testing.T) {
	for u, rule := range map[string]string{
		"":                                       "must begin with",
		"host:6379":                              "must begin with",
		"http://u:secret@host":                   "must begin with",
		"unix:///run/valkey":                     "must begin with",
		"valkey://":                              "must be host",
		"valkey://:6379":                         "must be host",
		"valkey://u:secret@":                     "must be host",
		"valkey://u:secret@host:port":            "cannot be read",
		"valkey://u:sec%ret@host":                "cannot be read",
		"valkey://host:0":                        "must be host",
		"valkey://host:65536":                    "must be host",
		"valkey://host/one":                      "number of a database",
		"valkey://host/-1":                       "number of a database",
		"valkey://host/1/2":                      "number of a database",
		"valkey://u:sec#ret@host":                "cannot be read",
		"valkey://u:secret@host#x":               "%23",
		"valkey://u:secret@host?%zz":             "parameters of the Valkey URL cannot be read",
		"valkey://host?addr=":                    "must be host",
		"valkey://host?addr=a/b":                 "must be host",
		"valkey://host?db=1":                     `got "db"`,
		"valkey://host?master_set=a&master_set=": "once",
		"valkey://host?sentinel_password=secret": "need master_set",
		"valkey://host?master_set=":              "must name",
		"valkey://host?skip_verify=secret":       `got "skip_verify"`,
	} {
		err := link.Check(u)
		if err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%s: got %v, want %s", u, err, rule)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: the error tells the secret: %v", u, err)
		}
	}
}

func TestBadCAFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for rule, target := range map[string]link.Target{
		"needs a Valkey URL":    {URL: "valkey://host", CAFile: empty},
		"no certificate in":     {URL: "valkeys://host", CAFile: empty},
		"no such file":          {URL: "valkeys://host", CAFile: empty + "x"},
		"must begin with redis": {URL: "host", CAFile: empty},
	} {
		_, err := link.New(link.Config{Target: target, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%+v: got %v, want %s", target, err, rule)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("valkeys://user:p%40ss@host:6379/0?addr=b:1&master_set=m")
	f.Add("redis://[::1%25eth0]:1/9")
	f.Fuzz(func(t *testing.T, tail string) {
		const secret = "Geheimnis"
		if err := link.Check("valkey://u:" + secret + "@" + tail); err != nil && strings.Contains(err.Error(), secret) {
			t.Error(err)
		}
	})
}
