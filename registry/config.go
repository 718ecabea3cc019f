package registry

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultInterval is the longest time between two pings of a node that is well.
	DefaultInterval = 15 * time.Second
	// DefaultWithdrawal bounds the end: one half is for what is to be said before, one for the last ping.
	DefaultWithdrawal = 2 * time.Second
	// Expiry is how long Canalis keeps a registration that is not renewed.
	Expiry = 45 * time.Second
)

// Config is what a Registration is built from. URL, Port and Transport are required.
type Config struct {
	// URL is where the pings go: AQUIFER_REGISTRY_URL, which is absolute.
	URL string
	// Port is where the API can be called, see AdvertisedPort.
	Port string
	// Interval is the longest time between two pings: AQUIFER_REGISTRY_INTERVAL_SECONDS. 0 means
	// DefaultInterval.
	Interval time.Duration
	// Withdrawal bounds how long Run goes on after the end of its context; 0 means DefaultWithdrawal.
	Withdrawal time.Duration
	// Transport carries the pings. It must end a request with its context.
	Transport http.RoundTripper
	// Sealer signs pings; nil: they go out as they are.
	Sealer Sealer
	// Logger and Registerer take the log and the metrics; nil: nobody is told.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Jitter returns numbers from 0 up to 1, evenly spread; nil for those of math/rand/v2.
	Jitter func() float64
	// Now is the wall clock of what is reported; nil for the system's. It times nothing.
	Now func() time.Time
}

// AdvertisedPort returns the port under which a node that listens at an address is registered. The
// control plane takes the host from where the ping comes from. The error says which settings to change.
func AdvertisedPort(bound net.Addr) (string, error) {
	text := ""
	if bound != nil {
		text = bound.String()
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil || !isPort(port) {
		return "", fmt.Errorf("AQUIFER_LISTEN or PORT must give the API a TCP port that the control plane at AQUIFER_REGISTRY_URL can call, got %q", text)
	}
	return port, nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// withDefaults returns c with its zero fields filled in, or an error that lists what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	check := func(ok bool, name, rule, value string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be %s, got %q", name, rule, value))
		}
	}
	if u, err := url.Parse(c.URL); err != nil || u.Hostname() == "" {
		errs = append(errs, errors.New("AQUIFER_REGISTRY_URL must be an absolute URL")) // the text may have a secret
	}
	check(c.Interval == 0 || c.Interval >= time.Second, "AQUIFER_REGISTRY_INTERVAL_SECONDS", "at least 1", c.Interval.String())
	check(isPort(c.Port), "AQUIFER_LISTEN or PORT", "a port from 1 to 65535", c.Port)
	if c.Transport == nil {
		errs = append(errs, errors.New("registry: no Transport"))
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Withdrawal == 0 {
		c.Withdrawal = DefaultWithdrawal
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, errors.Join(errs...)
}
