package drain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// Everything that is wrong is named at once.
func TestNewNamesSettings(t *testing.T) {
	ledger, err := storetest.NewDisk(t).Open()
	if err != nil {
		t.Fatal(err)
	}
	good := drain.Config{
		Ledger: ledger, Unfinished: func() int { return 0 }, WebhookURL: url, Keys: new(keys),
		Send: func(context.Context, string, []byte) (int, error) { return 200, nil },
	}
	if _, err := drain.New(good); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(c *drain.Config)
		want  []string
	}{
		"no URL": {func(c *drain.Config) { c.WebhookURL = "" },
			[]string{`AQUIFER_DRAIN_WEBHOOK_URL must be set while AQUIFER_DRAIN_ENABLED is true`}},
		"unknown sink":   {func(c *drain.Config) { c.Sink = "kafka" }, []string{`AQUIFER_DRAIN_SINK must be webhook or valkey, got "kafka"`}},
		"case of a sink": {func(c *drain.Config) { c.Sink = "Webhook" }, []string{`AQUIFER_DRAIN_SINK must be`}},
		"no valkey":      {func(c *drain.Config) { c.Sink, c.Keys = "valkey", nil }, []string{"AQUIFER_VALKEY_URL must be set"}},
		"no sender":      {func(c *drain.Config) { c.Send = nil }, []string{"no Send"}},
		"no parts":       {func(c *drain.Config) { c.Ledger = nil }, []string{"no Ledger"}},
		"many": {func(c *drain.Config) {
			c.Sink, c.Timer, c.BatchInterval, c.BatchMaxEvents, c.Quiet = "x", time.Second-1, -1, 10_001, -1
		}, []string{
			"Quiet must not be negative", "AQUIFER_DRAIN_TIMER_SECONDS must be at least 1, got 999.999999ms",
			"AQUIFER_DRAIN_BATCH_INTERVAL_SECONDS must be at least 1",
			"AQUIFER_DRAIN_BATCH_MAX_EVENTS must be from 1 to 10000, got 10001", "AQUIFER_DRAIN_SINK must be",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.spoil(&c)
			_, err := drain.New(c)
			if err == nil || strings.Count(err.Error(), "\n")+1 != len(test.want) {
				t.Fatalf("error %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: want %s", err, want)
				}
			}
		})
	}
	good.Sink, good.WebhookURL, good.Send = "valkey", "", nil
	if _, err := drain.New(good); err != nil {
		t.Errorf("valkey without a URL of a webhook: %v", err)
	}
}
