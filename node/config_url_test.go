package node

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestServiceURLs are those that the node calls of itself: one rule holds for all of them, and what breaks it stops the start.
func TestServiceURLs(t *testing.T) {
	for url, want := range map[string]bool{
		"http://control:8080/register":           true,
		"https://control.example.com/register":   true,
		"http://control":                         true,
		"http://[fdaa::3]:8080/register?fleet=a": true,
		"control:8080/register":                  false,
		"control/register":                       false,
		"//control/register":                     false,
		"http:///register":                       false,
		"http://:8080/register":                  false,
		"http://control:/register":               false,
		"http://control:0/register":              false,
		"http://control:65536/register":          false,
		"http://control:99999/register":          false,
		"http://control:http/register":           false,
		"ftp://control/register":                 false,
		"http://user:password@control/register":  false,
		"http://user@control/register":           false,
		"http://control/register#":               false,
		"http://control/register#top":            false,
		"http://can alis/register":               false,
		"http://control/%zz":                     false,
		" http://control/register":               false,
		"http://control/register\n":              false,
	} {
		for _, environ := range [][]string{
			{"AQUIFER_REGISTRY_URL=" + url}, {"AQUIFER_DRAIN_WEBHOOK_URL=" + url, "AQUIFER_DRAIN_ENABLED=true"},
		} {
			_, _, err := FromEnv(environ, "host-1")
			var bad *ConfigError
			if want != (err == nil) || !want && !errors.As(err, &bad) {
				t.Fatalf("%q: %v", environ[0], err)
			}
			if want {
				continue
			}
			for _, p := range bad.Problems {
				if !strings.HasPrefix(environ[0], p.Name+"=") || strings.Contains(p.String(), "password") {
					t.Errorf("%q: %v", environ[0], p)
				}
			}
		}
	}
}

func FuzzValidURL(f *testing.F) {
	for _, text := range []string{
		"http://control:8080/drain", "https://[::1]/", "", "control/drain", "//control", "http://:80/", "http://u:p@[::1]:99999/#",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !validURL(text) {
			return
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, text, nil)
		if err != nil || req.URL.Hostname() == "" || req.URL.User != nil || req.URL.Fragment != "" {
			t.Errorf("%q is valid, but cannot be called: %v", text, err)
		}
	})
}

// A URL may carry a secret before an @, in each of its parameters and behind a #. Its host stays readable.
func TestSecretsInURLsAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		"redis://sentinel:26379?master_set=m&sentinel_password=hunter2": "redis://sentinel:26379?master_set=[redacted]&sentinel_password=[redacted]",
		"redis://u:hunter2@sentinel/1?sentinel_user=hunter2":            "[redacted]@sentinel/1?sentinel_user=[redacted]",
		"http://host/x?hunter2":                                         "http://host/x?[redacted]",
		"http://host/x?token=hunter2#hunter2":                           "http://host/x?token=[redacted]",
		"http://host/x?token=hunter2;hunter2?hunter2=hunter2&a=":        "http://host/x?token=[redacted]&a=[redacted]",
		"http://host/x#hunter2":                                         "http://host/x#[redacted]",
		"http://host/x#?token=hunter2":                                  "http://host/x#[redacted]",
		"http://host/?token=a@hunter2":                                  "[redacted]",
		"redis://u:a?hunter2@host/":                                     "[redacted]",
		"http://host/#a@hunter2":                                        "[redacted]",
		"http://host/x":                                                 "http://host/x",
		"":                                                              "",
	} {
		if got := shownURL(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// TestPrintHidesURLs prints each setting that may carry a secret in its parameters, also where another one inherits it.
func TestPrintHidesURLs(t *testing.T) {
	c := mustConfig(t, "AQUIFER_VALKEY_URL=redis://sentinel:26379?master_set=m&sentinel_password=SENTSECRET",
		"AQUIFER_REGISTRY_URL=http://canalis/register?token=SENTSECRET", "AQUIFER_DRAIN_WEBHOOK_URL=http://sink/drain?token=SENTSECRET")
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nAQUIFER_VALKEY_URL=redis://sentinel:26379?master_set=[redacted]&sentinel_password=[redacted]\n",
		"\nAQUIFER_CLUSTER_VALKEY_URL=redis://sentinel:26379?master_set=[redacted]&sentinel_password=[redacted]\n",
		"\nAQUIFER_REGISTRY_URL=http://canalis/register?token=[redacted]\n", "\nAQUIFER_DRAIN_WEBHOOK_URL=http://sink/drain?token=[redacted]\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "SENTSECRET") {
		t.Errorf("a secret is printed:\n%s", &out)
	}
	for _, p := range problemsOf(t, "AQUIFER_REGISTRY_URL=canalis/register?token=SENTSECRET", "AQUIFER_DRAIN_ENABLED=true",
		"AQUIFER_DRAIN_WEBHOOK_URL=http://sink:99999/?token=SENTSECRET") {
		if strings.Contains(p.String(), "SENTSECRET") || !strings.Contains(p.String(), "token=[redacted]") {
			t.Error(p)
		}
	}
}
