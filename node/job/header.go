package job

import (
	"net/textproto"
	"strings"
)

// Header is one header of the call, spelled as the caller did.
type Header struct {
	Name  string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// Secret reports whether a header of this name carries a secret, by the names in common use:
// Authorization, Proxy-Authorization, Cookie, and whatever ends in key, token or secret.
func Secret(name string) bool {
	n := strings.ToLower(name)
	switch n {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return true
	}
	return strings.HasSuffix(n, "key") || strings.HasSuffix(n, "token") || strings.HasSuffix(n, "secret")
}

// Header returns the value of the header of this name, in any case.
func (r *Request) Header(name string) (string, bool) {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value, true
		}
	}
	return "", false
}

// Shown returns the request's headers as they may be shown, secrets redacted.
func (r *Request) Shown() map[string]string {
	shown := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		shown[h.Name] = h.Value
		if Secret(h.Name) {
			shown[h.Name] = Redacted
		}
	}
	return shown
}

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
