package job

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// check applies what the fields must be by themselves and what this node allows, in the order that
// callers know.
func (rules Rules) check(r *Request) error {
	switch {
	case r.Scope == ScopeShared && !rules.SharedScope:
		return fault.New(fault.Invalid, `idempotency_scope "shared" is not enabled on this node`)
	case r.URL == "" && r.PoolID == "" && !rules.Pools:
		return fault.New(fault.Invalid, "url is required")
	case r.URL == "" && r.PoolID == "":
		return fault.New(fault.Invalid, "url or pool_id is required")
	case r.URL != "" && r.PoolID != "":
		return fault.New(fault.Invalid, "url and pool_id exclude each other: give one of them")
	case r.PoolID != "" && !rules.Pools:
		return fault.New(fault.Invalid, "pool_id is not available on this node, got %q", r.PoolID)
	case r.Method == "":
		return fault.New(fault.Invalid, "method is required")
	case !httpguts.ValidHeaderFieldName(r.Method) || r.Method == http.MethodConnect:
		return fault.New(fault.Invalid, "method must be an HTTP method other than CONNECT, got %q", r.Method)
	case r.WebhookURL == "":
		return fault.New(fault.Invalid, "webhook_url is required")
	}
	if r.URL != "" {
		if err := checkURL("url", r.URL, rules.URLDomains); err != nil {
			return err
		}
	}
	if err := checkURL("webhook_url", r.WebhookURL, rules.WebhookDomains); err != nil {
		return err
	}
	return checkHeaders(r.Headers)
}

// maxHost is how long a host may be: a name of the DNS (RFC 1035, 2.3.4), a port, and brackets.
const maxHost = 253 + len("[]:65535")

// blank reports whether a character would end the URL in a request line.
func blank(r rune) bool { return r <= ' ' || r == 0x7f }

func checkURL(field, raw string, domains []string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "%s must be a URL, got %q", field, withoutCredentials(raw))
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return fault.New(fault.Invalid, "%s must be an absolute http or https URL, got %q", field, withoutCredentials(raw))
	case u.User != nil:
		return fault.New(fault.Invalid, "%s must not carry credentials, got %q", field, withoutCredentials(raw))
	case strings.ContainsFunc(u.RawQuery, blank):
		return fault.New(fault.Invalid, "%s must not have blanks in its query, got %q", field, u.RawQuery)
	case len(u.Host) > maxHost:
		return fault.New(fault.Invalid, "%s must have a host of at most %d characters, got %d", field, maxHost, len(u.Host))
	case !validHost(u):
		return fault.New(fault.Invalid, "%s must have a valid host and port in ASCII, got %q", field, u.Host)
	case !allowed(u.Hostname(), domains):
		return fault.New(fault.Invalid, "%s must have a host that this node allows, got %q", field, u.Hostname())
	}
	return nil
}

// withoutCredentials returns a text that may be a URL as it may be shown. Of what cannot be read nobody
// knows where the credentials end, so more may go than they are.
func withoutCredentials(raw string) string {
	at := strings.LastIndexByte(raw, '@')
	if at < 0 {
		return raw
	}
	start := 0
	if scheme := strings.Index(raw[:at], "://"); scheme >= 0 {
		start = scheme + len("://")
	}
	return raw[:start] + Redacted + raw[at:]
}

// validPort reports whether a URL may have the port; "" is the scheme's own.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// allowed reports whether host is one of the domains or below one; every host is if there are none.
func allowed(host string, domains []string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, d := range domains {
		if d = strings.ToLower(d); host == d || strings.HasSuffix(host, "."+d) {
			return true
		}
	}
	return len(domains) == 0
}

// maxHeaders bounds the headers of a call; targets take far fewer.
const maxHeaders = 200

func checkHeaders(list []Header) error {
	if len(list) > maxHeaders {
		return fault.New(fault.Invalid, "headers must be at most %d, got %d", maxHeaders, len(list))
	}
	for i, h := range list {
		switch {
		case !httpguts.ValidHeaderFieldName(h.Name):
			return fault.New(fault.Invalid, "headers must have valid names, got %q", h.Name)
		case !httpguts.ValidHeaderFieldValue(h.Value):
			return fault.New(fault.Invalid, "headers[%q] must be a valid header value without control characters", h.Name)
		case i > 0 && canonical(list[i-1].Name) == canonical(h.Name):
			return fault.New(fault.Invalid, "headers must name %q once, got %q and %q", canonical(h.Name), list[i-1].Name, h.Name)
		}
	}
	return nil
}

// AllowsHost reports whether a job may call the host.
func (rules Rules) AllowsHost(host string) bool { return allowed(host, rules.URLDomains) }
