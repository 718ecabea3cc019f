package job_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestURLs(t *testing.T) {
	for raw, want := range map[string]string{ // empty: accepted
		"http://api.example":              "",
		"HTTPS://API.example:8443/v1?q=1": "",
		"http://a.example/b c#d":          "",
		"http://a.example:65535/":         "",
		"http://a.example:/":              "",
		"http://[::1]:80/":                "",
		"http://localhost/":               "",
		"api.example/v1":                  "must be an absolute http or https URL",
		"/v1":                             "must be an absolute http or https URL",
		"//api.example/":                  "must be an absolute http or https URL",
		"ftp://api.example/":              "must be an absolute http or https URL",
		"http:api.example":                "must be an absolute http or https URL",
		"http://":                         "must be an absolute http or https URL",
		"http://:80/":                     "must be an absolute http or https URL",
		"http://api.example:port/":        "must be a URL",
		"http://api.example\n/":           "must be a URL",
		"http://api example/":             "must be a URL",
		"http://[::1/":                    "must be a URL",
		"http://%31.example/":             "must be a URL",
		"http://api.example:65536/":       "must have a valid host and port",
		"http://api.example:0/":           "must have a valid host and port",
		"http://bücher.example/":          "must have a valid host and port in ASCII",
		"http://\u212aube.example/":       "must have a valid host and port in ASCII",
	} {
		for _, field := range []string{"url", "webhook_url"} {
			_, err := job.Decode([]byte(valid(form{field: raw})), job.Hints{}, job.Rules{})
			if want == "" && err != nil {
				t.Errorf("%s: %v", raw, err)
			} else if want != "" {
				wantInvalid(t, err, field+" "+want)
			}
		}
	}
}

// Credentials are refused before the job is taken, and are not repeated in the answer.
func TestSF01_CredentialsInURL(t *testing.T) {
	for _, raw := range []string{"http://user:hunter2@api.example/", "http://user@api.example/", "http://:hunter2@api.example/", "http://@api.example/"} {
		for _, field := range []string{"url", "webhook_url"} {
			_, err := job.Decode([]byte(valid(form{field: raw})), job.Hints{}, job.Rules{})
			wantInvalid(t, err, field+" must not carry credentials")
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is in %v", err)
			}
		}
	}
	for raw, want := range map[string]string{
		"http://user:hunter2@api example/": "url must be a URL, got \"http://[redacted]@api example/\"",
		"http://user:hunter2/@api.example": "url must be a URL, got \"http://[redacted]@api.example\"",
		"ftp://user:hunter2@api.example/":  "url must be an absolute http or https URL, got \"ftp://[redacted]@api.example/\"",
		"user:hunter2@api.example/":        "url must be an absolute http or https URL, got \"[redacted]@api.example/\"",
	} {
		_, err := job.Decode([]byte(valid(form{"url": raw})), job.Hints{}, job.Rules{})
		wantInvalid(t, err, want)
	}
}

// Every spelling of an address is taken: the guard judges what it resolves to when it dials.
func TestSF01_AddressesAreJudgedAtDial(t *testing.T) {
	for _, host := range []string{
		"[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "2852039166", "0xA9FEA9FE",
		"0251.0376.0251.0376", "metadata.google.internal", "[fd00:ec2::254]", "169.254.170.2",
	} {
		if r := decode(t, valid(form{"url": "http://" + host + "/"})); r.URL != "http://"+host+"/" {
			t.Errorf("%s became %s", host, r.URL)
		}
	}
}

func TestAllowedDomains(t *testing.T) {
	rules := job.Rules{URLDomains: []string{"api.example", "B.example"}, WebhookDomains: []string{"hooks.example", "::1"}}
	for raw, ok := range map[string]bool{
		"http://api.example/": true, "http://API.Example:8080/": true, "http://eu.api.example/": true, "http://api.example./": true,
		"http://b.example/": true, "http://eviapi.example/": false, "http://api.example.evil/": false, "http://example/": false,
		"http://api.example:80.evil/": false, "http://127.0.0.1/": false, "http://hooks.example/": false,
	} {
		_, err := job.Decode([]byte(valid(form{"url": raw})), job.Hints{}, rules)
		if ok != (err == nil) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for raw, ok := range map[string]bool{
		"http://hooks.example/": true, "http://[::1]:9/": true, "http://api.example/": false, "http://[::2]/": false,
	} {
		_, err := job.Decode([]byte(valid(form{"webhook_url": raw})), job.Hints{}, rules)
		if ok != (err == nil) {
			t.Errorf("webhook %s: %v", raw, err)
		}
	}
}

func TestMethods(t *testing.T) {
	for raw, want := range map[string]string{"get": "GET", "Post": "POST", "PURGE": "PURGE", "x-y": "X-Y"} {
		if r := decode(t, valid(form{"method": raw})); r.Method != want {
			t.Errorf("%q became %q", raw, r.Method)
		}
	}
	for _, raw := range []string{"GET ", "G T", "GET\r\nX: y", "connect", "poſt", "ıNFO", "G\x00T", "GET/1"} {
		_, err := job.Decode([]byte(valid(form{"method": raw})), job.Hints{}, job.Rules{})
		wantInvalid(t, err, "method must be an HTTP method other than CONNECT")
	}
}

func TestHD02_IllegalHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		headers form
		want    string
	}{
		"CR LF in a value":     {form{"X-A": "1\r\nX-B: 2"}, `headers["X-A"] must be a valid header value`},
		"LF in a value":        {form{"X-A": "1\n"}, `headers["X-A"] must be a valid header value`},
		"NUL in a value":       {form{"X-A": "\x00"}, `headers["X-A"] must be a valid header value`},
		"DEL in a value":       {form{"X-A": "\x7f"}, `headers["X-A"] must be a valid header value`},
		"a name with a space":  {form{"X A": "1"}, `headers must have valid names, got "X A"`},
		"a name with a colon":  {form{"X-A:": "1"}, "headers must have valid names"},
		"a name with CR LF":    {form{"X-A\r\nX-B": "1"}, "headers must have valid names"},
		"a name not in ASCII":  {form{"X-Ä": "1"}, "headers must have valid names"},
		"an empty name":        {form{"": "1"}, "headers must have valid names"},
		"one name in two ways": {form{"X-Auth": "1", "x-auth": "2"}, `headers must name "X-Auth" once`},
	} {
		_, err := job.Decode([]byte(valid(form{"headers": c.headers})), job.Hints{}, job.Rules{})
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		wantInvalid(t, err, c.want)
	}
}

// A value may be a secret; an error about it does not repeat it.
func TestHD02_IllegalValuesAreNotRepeated(t *testing.T) {
	_, err := job.Decode([]byte(valid(form{"headers": form{"Authorization": "hunter2\n"}})), job.Hints{}, job.Rules{})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// Framing and hop-by-hop headers are legal in a job; the dispatch of an attempt sets its own.
func TestHD02_FramingHeadersAreNotTheCallersFault(t *testing.T) {
	r := decode(t, valid(form{"headers": form{
		"Host": "other.example", "Content-Length": "5", "Transfer-Encoding": "chunked", "Connection": "X-Auth", "X-Auth": "a\tb ü",
	}}))
	if len(r.Headers) != 5 {
		t.Errorf("got %v", r.Headers)
	}
}

// A blank in the query would end the URL in the request line, and what follows would be the target's
// to read as it likes.
func TestURLsThatNoTargetCanRead(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a.example/ok?a b HTTP/1.1":                 "must not have blanks in its query",
		"http://a.example/?a\u007fb":                       "must be a URL",
		"http://" + strings.Repeat("a.", 200) + "example/": "must have a host of at most",
	} {
		for _, field := range []string{"url", "webhook_url"} {
			_, err := job.Decode([]byte(valid(form{field: raw})), job.Hints{}, job.Rules{})
			wantInvalid(t, err, field+" "+want)
		}
	}
}

func TestTooManyHeaders(t *testing.T) {
	headers := make(map[string]string)
	for i := range 201 {
		headers["X-"+strconv.Itoa(i)] = "v"
	}
	_, err := job.Decode([]byte(valid(form{"headers": headers})), job.Hints{}, job.Rules{})
	wantInvalid(t, err, "headers must be at most 200, got 201")
}
