package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// patience bounds connecting, and how long a call that its caller has given up may go on, unless callers wait longer.
	patience = 2 * time.Second
	// bufferSize is that of each direction of a connection; the client's own default is half a megabyte.
	bufferSize = 64 << 10
	// sentinelRefresh is how often Sentinel is asked for the primary, in case its message was missed.
	sentinelRefresh = 5 * time.Second
)

// Target is where Valkey is and how to get in.
type Target struct {
	// URL is redis://, rediss://, valkey:// or valkeys://[user:password@]host[:port][/database]; rediss and
	// valkeys are over TLS. Its parameters are addr=host:port, as often as there are further addresses of a
	// Valkey Cluster or of Sentinels, and for Sentinel master_set, sentinel_user and sentinel_password.
	URL string
	// CAFile is a file of certificates in PEM form to trust in place of the system's; empty for those.
	CAFile string
}

// Check says what is wrong with a URL, without repeating any of its secrets; nil if nothing is.
func Check(rawURL string) error {
	_, err := parse(rawURL)
	return err
}

// Check says what is wrong with the target as it is now, without repeating any of its secrets; nil if nothing is.
func (t Target) Check() error {
	_, err := t.options()
	return err
}

// options returns the options of the client.
func (t Target) options() (valkey.ClientOption, error) {
	o, err := parse(t.URL)
	if err != nil || t.CAFile == "" {
		return o, err
	}
	if o.TLSConfig == nil {
		return o, errors.New("a CA file needs a Valkey URL that begins with rediss:// or valkeys://")
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return o, fmt.Errorf("CA file of Valkey: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return o, fmt.Errorf("CA file of Valkey: no certificate in %s", t.CAFile)
	}
	o.TLSConfig.RootCAs = roots
	return o, nil
}

func parse(rawURL string) (o valkey.ClientOption, err error) {
	u, err := url.Parse(rawURL)
	if err != nil { // its text has the URL, and so the password
		return o, errors.New("the Valkey URL cannot be read; write special characters of a password as %XX")
	}
	o = valkey.ClientOption{
		Dialer:             net.Dialer{Timeout: patience},
		PipelineMultiplex:  -1, // one connection
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		DisableCache: true,
	}
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return o, fmt.Errorf("the Valkey URL must begin with redis://, rediss://, valkey:// or valkeys://, got %q", u.Scheme)
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	if database := strings.TrimPrefix(u.Path, "/"); database != "" {
		if o.SelectDB, err = strconv.Atoi(database); err != nil || o.SelectDB < 0 {
			return o, fmt.Errorf("the path of the Valkey URL must be the number of a database, got %q", database)
		}
	}
	if u.Fragment != "" {
		return o, errors.New("the Valkey URL must end without #; write that character of a password as %23")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return o, errors.New("the parameters of the Valkey URL cannot be read")
	}
	if o.InitAddress, err = addresses(append([]string{u.Host}, q["addr"]...)); err != nil {
		return o, err
	}
	o.Sentinel = sentinel(q, o)
	return o, known(q)
}

func sentinel(q url.Values, o valkey.ClientOption) valkey.SentinelOption {
	return valkey.SentinelOption{
		Dialer: o.Dialer, TLSConfig: o.TLSConfig, TopologyRefreshInterval: sentinelRefresh,
		MasterSet: q.Get("master_set"), Username: q.Get("sentinel_user"), Password: q.Get("sentinel_password"),
	}
}

// known refuses a parameter that nobody would read.
func known(q url.Values) error {
	names := []string{"addr", "master_set", "sentinel_password", "sentinel_user"}
	for name, values := range q {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the Valkey URL may have the parameters %s, got %q", strings.Join(names, ", "), name)
		}
		if name != "addr" && len(values) > 1 {
			return fmt.Errorf("the Valkey URL may have %s once, got it %d times", name, len(values))
		}
	}
	if q.Has("master_set") && q.Get("master_set") == "" {
		return errors.New("master_set of the Valkey URL must name what the Sentinels watch, or not be there")
	}
	if !q.Has("master_set") && (q.Has("sentinel_user") || q.Has("sentinel_password")) {
		return errors.New("sentinel_user and sentinel_password of the Valkey URL need master_set")
	}
	return nil
}

const defaultPort = "6379"

// addresses returns each address with its port.
func addresses(list []string) ([]string, error) {
	for i, a := range list {
		u := url.URL{Host: a}
		host, port := u.Hostname(), u.Port()
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 || strings.ContainsAny(host, "/@ ") {
			return nil, fmt.Errorf("an address of Valkey must be host or host:port, got %q", a)
		}
		list[i] = net.JoinHostPort(host, port)
	}
	return list, nil
}
