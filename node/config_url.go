package node

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// urlRule is what the URL of a service must be that the node calls of itself.
const urlRule = "an absolute http or https URL without credentials and fragment"

// validURL reports whether a text follows urlRule.
func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && validPort(u) &&
		u.User == nil && !strings.Contains(text, "#")
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// shownURL hides what may be a secret in a URL: what stands before an @, the values of parameters, and what stands behind
// a #. The text need not be a valid URL, and so what cannot be told apart is hidden as a whole.
func shownURL(text string) string {
	before, shown := "", text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if strings.ContainsAny(text[:at], "?#") {
			return job.Redacted // of a password or of a parameter
		}
		before, shown = job.Redacted, text[at:]
	}
	at := strings.IndexAny(shown, "?#")
	if at < 0 {
		return before + shown
	}
	shown, rest := shown[:at+1], shown[at+1:]
	if strings.HasSuffix(shown, "#") {
		return before + shown + job.Redacted
	}
	parameters := strings.Split(rest, "&")
	for i, p := range parameters {
		name, _, named := strings.Cut(p, "=")
		if parameters[i] = job.Redacted; named {
			parameters[i] = name + "=" + job.Redacted
		}
	}
	return before + shown + strings.Join(parameters, "&")
}
