package job

import (
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/aquifer-fleet/aquifer/node/hostname"
)

// TargetOf returns scheme://host[:port] of a URL that a Request has, the same for every spelling of one
// place: see hostname.Canonical; the scheme's own port is left out. It is empty if the URL has none.
func TargetOf(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return ""
	}
	rest = authority(rest)
	if scheme == "" || rest == "" {
		return ""
	}
	scheme, rest = strings.ToLower(scheme), hostname.Canonical(rest)
	switch scheme {
	case "http":
		rest = strings.TrimSuffix(rest, httpPort)
	case "https":
		rest = strings.TrimSuffix(rest, httpsPort)
	}
	start := len(scheme) + len("://")
	if strings.HasPrefix(rawURL, scheme) && strings.HasPrefix(rawURL[start:], rest) {
		return rawURL[:start+len(rest)] // an allocation less for every look at a job
	}
	return scheme + "://" + rest
}

// authority is what stands between the scheme and the path of a URL.
func authority(rest string) string {
	for i := range len(rest) { // which costs less than to make a set of the three for strings.IndexAny
		switch rest[i] {
		case '/', '?', '#':
			return rest[:i]
		}
	}
	return rest
}

const httpPort, httpsPort = ":80", ":443"

// Host is the HostOf the target.
func (l Lane) Host() string {
	_, at, _ := strings.Cut(l.Target, "://")
	return withoutUsualPort(at)
}

// HostOf returns the name by which the configuration and the interface know the targets at host[:port]
// as in a URL. It says nothing about the scheme, so the usual ports of both stand for no port.
func HostOf(hostPort string) string { return withoutUsualPort(hostname.Canonical(hostPort)) }

func withoutUsualPort(canonical string) string {
	return strings.TrimSuffix(strings.TrimSuffix(canonical, httpPort), httpsPort)
}

// TargetsAt returns what targets may have a host, in the form of HostOf: one of each scheme, and where that stands for no
// port, those at the usual port of the other scheme.
func TargetsAt(host string) []string {
	all := []string{"http://" + host, "https://" + host}
	if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') {
		all = append(all, "http://"+host+httpsPort, "https://"+host+httpPort)
	}
	return all
}

// ValidHost reports whether the URL of a job may have this host[:port], and it is a host that can be called: no pattern
// and no list.
func ValidHost(hostPort string) bool {
	u, err := url.Parse("http://" + hostPort)
	if err != nil || u.Host != hostPort || !validHost(u) {
		return false
	}
	_, _, err = hostname.Parse(u.Hostname())
	return err == nil
}

// validHost reports whether a job may have the URL, as far as its host goes.
func validHost(u *url.URL) bool {
	return u.Hostname() != "" && len(u.Host) <= maxHost && httpguts.ValidHostHeader(u.Host) && validPort(u.Port())
}
