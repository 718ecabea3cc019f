package pace

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// unreachable is an attempt that could not connect.
func unreachable() Signal { return Signal{Failed: true, Unreachable: true} }

// direct is the answer to a direct call.
func direct(status int, h http.Header, now time.Time) Signal {
	return Signal{Status: status, Overload: ReadOverload(status, h, now)}
}

// story is a target's breaker in a transcript under testdata/breaker. Its commands are
//
//	breaker default=5s times=3 most=1h      a new breaker: its cooldown, what of a Retry-After it is, which is capped
//	refused [NUMBER]                        queued attempts that cannot connect
//	silent                                  one that is connected and gets no answer
//	answer STATUS [Header: value; ...]      the answer to a queued attempt
//	direct STATUS [Header: value; ...]      the answer to a direct call
//	wait TIME                               time passes
type story struct {
	budget *Budget
	now    time.Duration
}

func TestBreakerTranscripts(t *testing.T) {
	transcripts(t, "testdata/breaker/*.txt", func() teller { return &story{} })
}

func (s *story) command(out *strings.Builder, words []string) error {
	verb, args := words[0], append(words[1:], "", "")
	switch verb {
	case "breaker":
		set, err := cooldown(words[1:])
		s.budget = NewBudget(Settings{RPS: 10, MaxConcurrent: 1, Breaker: set})
		return err
	case "refused":
		n, err := strconv.Atoi(cmp.Or(args[0], "1"))
		for range n {
			s.budget.Done(unreachable(), at(s.now))
		}
		s.show(out)
		return err
	case "silent":
		s.budget.Done(Signal{Failed: true}, at(s.now))
	case "answer", "direct":
		status, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		h := fields(args[1:])
		if verb == "direct" {
			s.budget.Done(direct(status, h, at(s.now)), at(s.now))
		} else {
			s.budget.Done(ReadSignal(status, status >= 400, h, at(s.now)), at(s.now))
		}
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		s.now += d
	default:
		return fmt.Errorf("no such command")
	}
	s.show(out)
	return nil
}

func cooldown(args []string) (c Cooldown, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "default":
			c.Default, err = time.ParseDuration(value)
		case "times":
			c.Multiplier, err = strconv.Atoi(value)
		case "most":
			c.RetryAfterMax, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no setting %s", name)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func (s *story) show(out *strings.Builder) {
	b := s.budget.Breaker()
	kind, until := b.Open(at(s.now))
	if kind == BreakerClosed {
		fmt.Fprintf(out, "  %8v  closed\n", s.now)
		return
	}
	reason, since := b.Why()
	fmt.Fprintf(out, "  %8v  open since %v until %v: %s, %s\n", s.now, since.Sub(start), until.Sub(start), kind, reason)
}

// Of a list what cannot be read to the letter is ignored; without anything that can be read there is no list.
func TestCodeLists(t *testing.T) {
	for _, c := range []struct {
		status int
		codes  string
		want   BreakerKind
	}{
		{500, "500", BreakerQueue},
		{500, "5xx", BreakerQueue},
		{599, "5xx", BreakerQueue},
		{600, "5xx", BreakerClosed},
		{100, "1xx", BreakerQueue},
		{404, " 429 ,\t404", BreakerQueue},
		{404, "nonsense, 404, 4x4", BreakerQueue},
		{404, "429;404", BreakerClosed},
		{404, "429 404", BreakerClosed},
		{429, "404", BreakerClosed},
		{429, "", BreakerQueue},
		{429, ",", BreakerQueue},
		{429, "nonsense", BreakerQueue},
	} {
		if got := ReadOverload(c.status, headers("X-Aqueduct-Queue-Codes", c.codes), start).Kind; got != c.want {
			t.Errorf("%d with %q: got %v, want %v", c.status, c.codes, got, c.want)
		}
	}
	for _, code := range []string{
		"5XX", "0xx", "6xx", "xx", "5x", "50x", "5xxx", "5", "099", "600", "0500", "+500", "500.0", "5e2", "500\n", "٥٠٠", "*",
	} {
		if got := ReadOverload(500, headers("X-Aqueduct-Queue-Codes", code), start); got != (Overload{}) {
			t.Errorf("500 with %q: got %+v", code, got)
		}
		if got := ReadOverload(429, headers("X-Aqueduct-Queue-Codes", code), start).Kind; got != BreakerQueue {
			t.Errorf("429 with %q, which is no list: got %v", code, got)
		}
	}
}

func TestCodeListsOfBothNames(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want BreakerKind
	}{
		{[]string{"X-Aquifer-Reroute-Codes", "404"}, BreakerReroute},
		{[]string{"X-Aqueduct-Reroute-Codes", "405", "X-Aquifer-Reroute-Codes", "404"}, BreakerClosed},
		{[]string{"X-Aqueduct-Reroute-Codes", "abc", "X-Aquifer-Reroute-Codes", "404"}, BreakerReroute},
		{[]string{"X-Aqueduct-Reroute-Codes", "405", "X-Aqueduct-Reroute-Codes", "404"}, BreakerReroute},
		{[]string{"Reroute-Codes", "404"}, BreakerClosed},
	} {
		if got := ReadOverload(404, headers(c.in...), start).Kind; got != c.want {
			t.Errorf("%q: got %v, want %v", c.in, got, c.want)
		}
	}
}

// FuzzReadOverload holds what is read of code lists to a slow reader of them, and a breaker that hears it to its bounds.
func FuzzReadOverload(f *testing.F) {
	f.Add(503, "5xx, 429", "503", "10", "true")
	f.Add(429, "", "", "9223372036854775807", "")
	f.Add(200, "6xx,,xx,2XX", "\t2xx ", "Sun, 11 Oct 2026 12:00:00 GMT", "false")
	f.Fuzz(func(t *testing.T, status int, queue, reroute, after, active string) {
		h := headers("X-Aqueduct-Queue-Codes", queue, "X-Aquifer-Reroute-Codes", reroute, "Retry-After", after, "X-Aqueduct-Queue-Active", active)
		o := ReadOverload(status, h, start)
		want := BreakerClosed
		switch {
		case inList(reroute, status, 503):
			want = BreakerReroute
		case inList(queue, status, 429), hint(h, "Queue-Active", exactly, either).Value:
			want = BreakerQueue
		}
		if o.Kind != want || o.RetryAfter < 0 {
			t.Errorf("%d: got %+v, want %v", status, o, want)
		}
		b := NewBudget(Settings{RPS: 1, MaxConcurrent: 1, Breaker: Cooldown{Default: time.Second, Multiplier: 2, RetryAfterMax: time.Minute}})
		b.Done(Signal{Status: status, Overload: o}, start)
		if kind, until := b.Breaker().Open(start); kind != want && status != 0 || until.Sub(start) > 2*time.Minute {
			t.Errorf("%d: open for %v until %v after %+v", status, kind, until, o)
		}
	})
}

// inList is the rule of a list in other words.
func inList(list string, status, fallback int) bool {
	entry := regexp.MustCompile(`^[\t ]*([1-5][0-9][0-9]|[1-5]xx)[\t ]*$`)
	readable := false
	for part := range strings.SplitSeq(list, ",") {
		m := entry.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		readable = true
		if m[1] == strconv.Itoa(status) || status >= 100 && status <= 599 && m[1] == strconv.Itoa(status/100)+"xx" {
			return true
		}
	}
	return !readable && status == fallback
}

// Whatever happens: a breaker is never open for longer than the longest cooldown that was asked for, and it does not
// open unless a target was overloaded or three attempts in a row could not connect.
func TestABreakerKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Cooldown{
			Default:       time.Duration(rapid.IntRange(1, 60).Draw(t, "default")) * time.Second,
			Multiplier:    rapid.IntRange(1, 5).Draw(t, "multiplier"),
			RetryAfterMax: time.Duration(rapid.IntRange(1, 600).Draw(t, "most")) * time.Second,
		}
		b, now := NewBudget(Settings{RPS: 10, MaxConcurrent: 1, Breaker: set}), start
		row, longest, ends := 0, time.Duration(0), start
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 20e9).Draw(t, "ns")))
			before, _ := b.Breaker().Open(now)
			asked, s := time.Duration(0), Signal{}
			switch rapid.SampledFrom([]string{"refused", "refused", "refused", "silent", "answer", "direct"}).Draw(t, "what") {
			case "refused":
				s = unreachable()
				if row++; row >= 3 {
					asked = set.Default
				}
			case "silent":
				s.Failed = true
			case "answer":
				s, row = ReadSignal(rapid.SampledFrom([]int{200, 404, 429, 503}).Draw(t, "status"), true, headers("Retry-After", "1000"), now), 0
			case "direct":
				after := rapid.IntRange(0, 1000).Draw(t, "after")
				s, row = direct(rapid.SampledFrom([]int{200, 429, 503}).Draw(t, "status"), headers("Retry-After", strconv.Itoa(after)), now), 0
				switch {
				case s.Status == 200:
				case after == 0:
					asked = set.Default
				default:
					asked = min(time.Duration(after)*time.Second, set.RetryAfterMax) * time.Duration(set.Multiplier)
				}
			}
			opened := b.Done(s, now)
			longest, ends = max(longest, asked), latest(ends, now.Add(asked))
			kind, until := b.Breaker().Open(now)
			switch {
			case until.Sub(now) > longest:
				t.Fatalf("open for another %v, and the longest cooldown was %v", until.Sub(now), longest)
			case (kind != BreakerClosed) != ends.After(now):
				t.Fatalf("open is %v, and what was asked for ends in %v", kind, ends.Sub(now))
			case asked == 0 && kind != before:
				t.Fatalf("%v became %v by %+v", before, kind, s)
			case (opened != BreakerClosed) != (before == BreakerClosed && kind != BreakerClosed):
				t.Fatalf("%v became %v, and it is said that it opened for %v", before, kind, opened)
			}
		}
	})
}

func TestAClosedBreakerIsTheZeroOne(t *testing.T) {
	if kind, until := new(Breaker).Open(start); kind != BreakerClosed || !until.IsZero() {
		t.Errorf("open for %v until %v", kind, until)
	}
	b := NewBudget(Settings{RPS: 1, MaxConcurrent: 1}) // with the default cooldown
	for range 3 {
		b.Done(unreachable(), start)
	}
	if kind, until := b.Breaker().Open(start); kind != BreakerReroute || !until.Equal(at(5*time.Second)) {
		t.Errorf("open for %v until %v", kind, until)
	}
	if kind, until := b.Breaker().Open(at(5 * time.Second)); kind != BreakerClosed || !until.IsZero() {
		t.Errorf("open for %v until %v", kind, until)
	}
}

func TestBreakerWords(t *testing.T) {
	if got := fmt.Sprint(BreakerClosed, BreakerQueue, BreakerReroute, BreakerReroute+1); got != "closed queue reroute unknown" {
		t.Errorf("kinds are %s", got)
	}
	if got := fmt.Sprint(Unreached, Overloaded, QueueActive, QueueActive+1); got != "upstream_unreachable upstream_overloaded queue_active unknown" {
		t.Errorf("reasons are %s", got)
	}
}
