package pace

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 10, 11, 12, 0, 0, 0, time.UTC)

// headers makes a header from names and values in turn.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func dated(at time.Time, pairs ...string) http.Header {
	h := headers(pairs...)
	h.Set("Date", at.Format(http.TimeFormat))
	return h
}

type retryAfterCase struct {
	name string
	in   http.Header
	wait time.Duration // negative: no hint
	raw  string
}

func checkRetryAfter(t *testing.T, cases []retryAfterCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ParseRetryAfter(c.in, start)
			if got.OK != (c.wait >= 0) || got.OK && got.Wait != c.wait {
				t.Errorf("got %v, %v; want %v", got.Wait, got.OK, c.wait)
			}
			if !got.OK && got.Wait != 0 {
				t.Errorf("no hint, but a wait of %v", got.Wait)
			}
			if got.Raw != c.raw {
				t.Errorf("raw is %q, want %q", got.Raw, c.raw)
			}
		})
	}
}

func TestRA01_RetryAfterBeyondWhatFits(t *testing.T) {
	for _, raw := range []string{"9223372037", "9223372036854775807", "99999999999999999999", strings.Repeat("9", 100)} {
		got := ParseRetryAfter(headers("Retry-After", raw), start)
		if !got.OK || got.Wait < 9223372036*time.Second {
			t.Errorf("%s: got %v, %v; want about 292 years", raw, got.Wait, got.OK)
		}
		if wait := got.Or(time.Minute, time.Hour); wait != time.Hour || got.Raw != raw {
			t.Errorf("%s: waits %v, want one hour, with the raw value %q", raw, wait, got.Raw)
		}
	}
	if wait := (RetryAfter{Wait: 5 * time.Second, OK: true}).Or(time.Minute, time.Hour); wait != 5*time.Second {
		t.Errorf("a short wait was changed to %v", wait)
	}
	if wait := (RetryAfter{}).Or(time.Minute, time.Second); wait != time.Minute {
		t.Errorf("without a hint the back-off is %v", wait)
	}
}

func TestRA02_RetryAfterIsDigitsOnly(t *testing.T) {
	cases := []retryAfterCase{
		{"spaces around", headers("Retry-After", " 120 "), 120 * time.Second, "120"},
		{"tab around", headers("Retry-After", "\t7"), 7 * time.Second, "7"},
		{"zero", headers("Retry-After", "0"), 0, "0"},
		{"leading zeros", headers("Retry-After", "007"), 7 * time.Second, "007"},
		{"two headers", headers("Retry-After", "120", "Retry-After", "30"), -1, "120, 30"},
		{"absent", headers(), -1, ""},
		{"nil", nil, -1, ""},
	}
	for _, bad := range []string{"-5", "+3", "1.5", "", "0x10", "120, 30", "1e3", "1 2", "٣", "120s", "5\u00a0"} {
		cases = append(cases, retryAfterCase{"bad " + bad, headers("Retry-After", bad), -1, bad})
	}
	checkRetryAfter(t, cases)
}

func TestRA03_RetryAfterDates(t *testing.T) {
	in90, in1994 := start.Add(90*time.Second), time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	imf := func(at time.Time) string { return at.Format(http.TimeFormat) }
	rfc850 := in90.Format("Monday, 02-Jan-06 15:04:05 GMT")
	late := func(value string) http.Header { return dated(start.Add(-time.Hour), "Retry-After", value) }
	// The answer came 600 ms after a full second, so the date is 400 ms ahead.
	sub := ParseRetryAfter(headers("Retry-After", imf(start.Add(time.Second))), start.Add(600*time.Millisecond))
	if !sub.OK || sub.Wait != time.Second {
		t.Errorf("400 ms ahead: got %v, want 1s", sub.Wait)
	}
	checkRetryAfter(t, []retryAfterCase{
		{"IMF-fixdate", headers("Retry-After", imf(in90)), 90 * time.Second, imf(in90)},
		{"RFC 850", headers("Retry-After", rfc850), 90 * time.Second, rfc850},
		{"asctime", headers("Retry-After", in90.Format(time.ANSIC)), 90 * time.Second, in90.Format(time.ANSIC)},
		{"in 1994", headers("Retry-After", imf(in1994)), MinBackoff, imf(in1994)},
		{"now", headers("Retry-After", imf(start)), MinBackoff, imf(start)},
		{"by the clock of the target", late(imf(start.Add(-time.Hour + 90*time.Second))), 90 * time.Second, imf(start.Add(-time.Hour + 90*time.Second))},
		{"unreadable clock of the target", headers("Date", "today", "Retry-After", imf(in90)), 90 * time.Second, imf(in90)},
		{"year 9999", headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), math.MaxInt64, "Fri, 31 Dec 9999 23:59:59 GMT"},
		{"another zone", headers("Retry-After", "Sun, 11 Oct 2026 12:01:30 CET"), -1, "Sun, 11 Oct 2026 12:01:30 CET"},
		{"wrong weekday", headers("Retry-After", "Mon, 11 Oct 2026 12:01:30 GMT"), 90 * time.Second, "Mon, 11 Oct 2026 12:01:30 GMT"},
		{"wrong weekday of RFC 850", headers("Retry-After", "Friday, 11-Oct-26 12:01:30 GMT"), 90 * time.Second, "Friday, 11-Oct-26 12:01:30 GMT"},
		{"no weekday", headers("Retry-After", "Xyz, 11 Oct 2026 12:01:30 GMT"), -1, "Xyz, 11 Oct 2026 12:01:30 GMT"},
		{"GMT as an offset", headers("Retry-After", "Sun, 11 Oct 2026 12:01:30 +0000"), 90 * time.Second, "Sun, 11 Oct 2026 12:01:30 +0000"},
		{"another offset", headers("Retry-After", "Sun, 11 Oct 2026 12:01:30 +0100"), -1, "Sun, 11 Oct 2026 12:01:30 +0100"},
		{"ISO 8601", headers("Retry-After", "2026-10-11T12:01:30Z"), -1, "2026-10-11T12:01:30Z"},
	})
}

func TestRA05_ResetsOfRateLimits(t *testing.T) {
	checkRetryAfter(t, []retryAfterCase{
		{"requests", headers("X-RateLimit-Reset-Requests", "6m5s"), 365 * time.Second, "6m5s"},
		{"tokens", headers("X-RateLimit-Reset-Tokens", "120ms"), time.Second, "120ms"},
		{"requests and tokens", headers("X-RateLimit-Reset-Requests", "1s", "X-RateLimit-Reset-Tokens", "2m59.56s"), 180 * time.Second, "2m59.56s"},
		{"requests in plain seconds", headers("X-RateLimit-Reset-Requests", "12"), 12 * time.Second, "12"},
		{"requests, negative", headers("X-RateLimit-Reset-Requests", "-6m"), -1, ""},
		{"requests, too long", headers("X-RateLimit-Reset-Requests", "99999999999h"), -1, ""},
		{"RateLimit-Reset", headers("RateLimit-Reset", "30"), 30 * time.Second, "30"},
		{"RateLimit-Reset of 0", headers("RateLimit-Reset", "0"), MinBackoff, "0"},
		{"X-RateLimit-Reset in seconds", headers("X-RateLimit-Reset", "45"), 45 * time.Second, "45"},
		{"X-RateLimit-Reset as a time", headers("X-RateLimit-Reset", "1791720060"), 60 * time.Second, "1791720060"},
		{"X-RateLimit-Reset as a time in ms", headers("X-RateLimit-Reset", "1791720060500"), 61 * time.Second, "1791720060500"},
		{"X-RateLimit-Reset as a time by the clock of the target", dated(start.Add(-time.Minute), "X-RateLimit-Reset", "1791720000"), 60 * time.Second, "1791720000"},
		{"X-RateLimit-Reset in the past", headers("X-RateLimit-Reset", "1000000000"), MinBackoff, "1000000000"},
		{"X-RateLimit-Reset, endless", headers("X-RateLimit-Reset", strings.Repeat("9", 30)), math.MaxInt64, strings.Repeat("9", 30)},
		{"Retry-After wins", headers("RateLimit-Reset", "30", "Retry-After", "7"), 7 * time.Second, "7"},
		{"an unreadable Retry-After does not", headers("RateLimit-Reset", "30", "Retry-After", "soon"), 30 * time.Second, "30"},
		{"nothing readable", headers("RateLimit-Reset", "soon", "Retry-After", "later"), -1, "later"},
	})
	if start.Unix() != 1791720000 {
		t.Fatal("the table counts from another start")
	}
}

func TestRawIsFitForARecord(t *testing.T) {
	r := ParseRetryAfter(headers("Retry-After", "\xff\xfe"+strings.Repeat("ä", 200)), start)
	if !utf8.ValidString(r.Raw) || len(r.Raw) > maxRaw || r.Raw == "" {
		t.Errorf("got %q", r.Raw)
	}
}

func checkSane(t interface{ Errorf(string, ...any) }, r RetryAfter) {
	if r.Wait < 0 || !r.OK && r.Wait != 0 || len(r.Raw) > maxRaw || !utf8.ValidString(r.Raw) {
		t.Errorf("got %+v", r)
	}
	if r.OK && r.Wait != 0 && r.Wait < MinBackoff {
		t.Errorf("not rounded up: %v", r.Wait)
	}
	if r.Or(0, time.Hour) > time.Hour {
		t.Errorf("not capped: %v", r.Wait)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-5", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "6m5s", "1791720060"} {
		f.Add("Retry-After", s, "")
		f.Add("X-RateLimit-Reset", s, s)
		f.Add("X-RateLimit-Reset-Requests", s, "Sun, 06 Nov 1994 08:49:37 GMT")
	}
	f.Fuzz(func(t *testing.T, name, value, date string) {
		checkSane(t, ParseRetryAfter(headers(name, value, "Date", date), start))
	})
}

func TestRetryAfterReadsWhatItShould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, 1<<33).Draw(t, "seconds")
		skew := time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "skew")) * time.Second
		n := rapid.SampledFrom([]string{http.TimeFormat, time.ANSIC}).Draw(t, "form")
		clock := start.Add(skew)
		r := ParseRetryAfter(dated(clock, "Retry-After", clock.Add(time.Duration(seconds)*time.Second).Format(n)), start)
		if want := max(time.Duration(seconds)*time.Second, MinBackoff); !r.OK || r.Wait != want {
			t.Fatalf("got %+v, want %v", r, want)
		}
	})
}

func TestRetryAfterNamesItsHeader(t *testing.T) {
	for want, in := range map[string]http.Header{
		"":                           headers("Retry-After", "soon"),
		"Retry-After":                headers("Retry-After", "3", "RateLimit-Reset", "9"),
		"Ratelimit-Reset":            headers("Retry-After", "soon", "RateLimit-Reset", "9"),
		"X-Ratelimit-Reset":          headers("X-RateLimit-Reset", "9"),
		"X-Ratelimit-Reset-Requests": headers("X-RateLimit-Reset-Requests", "9s", "X-RateLimit-Reset-Tokens", "8s"),
		"X-Ratelimit-Reset-Tokens":   headers("X-RateLimit-Reset-Requests", "7s", "X-RateLimit-Reset-Tokens", "8s"),
	} {
		if got := ParseRetryAfter(in, start); got.Header != want {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}
