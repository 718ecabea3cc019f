package drain

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The sinks, as in AQUIFER_DRAIN_SINK.
const (
	SinkWebhook = "webhook"
	SinkValkey  = "valkey"
)

// Defaults and bounds of the settings.
const (
	DefaultTimer          = 45 * time.Second
	DefaultBatchMaxEvents = 1000
	// MaxBatchMaxEvents bounds a batch, which is held in memory and recorded in one step.
	MaxBatchMaxEvents = 10_000
)

// Config is what a Drain is built from. Ledger, Unfinished, and what the sink needs are required.
type Config struct {
	Ledger Ledger
	// Unfinished counts the jobs and deliveries that the node still has to do, also those that wait for a retry.
	Unfinished func() int
	// Quiet is for how long there must be no work before the node counts as idle.
	Quiet time.Duration
	// Timer is for how long it must then be idle before it is handed over: AQUIFER_DRAIN_TIMER_SECONDS. 0 means
	// DefaultTimer.
	Timer time.Duration
	// BatchInterval is how often the sink is told in the meantime: AQUIFER_DRAIN_BATCH_INTERVAL_SECONDS, if
	// AQUIFER_DRAIN_BATCH_ENABLED; 0: not at all.
	BatchInterval time.Duration
	// BatchMaxEvents is how many entries a batch has at most: AQUIFER_DRAIN_BATCH_MAX_EVENTS. 0 means
	// DefaultBatchMaxEvents.
	BatchMaxEvents int

	// Sink is who is told: AQUIFER_DRAIN_SINK. Empty means SinkWebhook.
	Sink string
	// WebhookURL is where SinkWebhook posts to with Send: AQUIFER_DRAIN_WEBHOOK_URL. Whether it can be called is for
	// Send to say.
	WebhookURL string
	Send       Send
	// Keys is where SinkValkey sets keys. Results has what their jobs answered kept there too; nil: that is lost
	// with the jobs.
	Keys    Keys
	Results Results

	// Logger and Registerer take the log and the metrics; nil: nobody is told.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Jitter returns numbers from 0 up to 1, evenly spread; nil for those of math/rand/v2.
	Jitter func() float64
}

func (c Config) withDefaults() Config {
	if c.Timer == 0 {
		c.Timer = DefaultTimer
	}
	if c.BatchMaxEvents == 0 {
		c.BatchMaxEvents = DefaultBatchMaxEvents
	}
	if c.Sink == "" {
		c.Sink = SinkWebhook
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}

// validate lists what is wrong.
func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Ledger != nil && c.Unfinished != nil, "drain: no Ledger or no Unfinished")
	check(c.Quiet >= 0, "drain: Quiet must not be negative, got %v", c.Quiet)
	check(c.Timer >= time.Second, "AQUIFER_DRAIN_TIMER_SECONDS must be at least 1, got %v", c.Timer)
	check(c.BatchInterval == 0 || c.BatchInterval >= time.Second,
		"AQUIFER_DRAIN_BATCH_INTERVAL_SECONDS must be at least 1, got %v", c.BatchInterval)
	check(c.BatchMaxEvents > 0 && c.BatchMaxEvents <= MaxBatchMaxEvents,
		"AQUIFER_DRAIN_BATCH_MAX_EVENTS must be from 1 to %d, got %d", MaxBatchMaxEvents, c.BatchMaxEvents)
	switch c.Sink {
	case SinkWebhook:
		check(c.WebhookURL != "", "AQUIFER_DRAIN_WEBHOOK_URL must be set while AQUIFER_DRAIN_ENABLED is true")
		check(c.Send != nil, "drain: no Send")
	case SinkValkey:
		check(c.Keys != nil, "AQUIFER_DRAIN_SINK is valkey: AQUIFER_VALKEY_URL must be set")
	default:
		check(false, "AQUIFER_DRAIN_SINK must be %s or %s, got %q", SinkWebhook, SinkValkey, c.Sink)
	}
	return errors.Join(errs...)
}

func (c Config) newSink() sink {
	if c.Sink == SinkValkey {
		return region{keys: c.Keys, results: c.Results}
	}
	return webhook{url: c.WebhookURL, send: c.Send}
}
