package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// terminal plays what a screen writes, as far as a screen uses a terminal.
func terminal(t *testing.T, written string) []string {
	t.Helper()
	up := regexp.MustCompile(`^\x1b\[(\d+)A`)
	var lines []string
	row := 0
	for len(written) > 0 {
		switch {
		case up.MatchString(written):
			sequence := up.FindStringSubmatch(written)
			n, err := strconv.Atoi(sequence[1])
			if err != nil || n > row {
				t.Fatalf("above the first line: %q", sequence[0])
			}
			row -= n
			written = written[len(sequence[0]):]
		case written[0] == '\r':
			written = written[1:]
		default:
			line, rest, ended := strings.Cut(written, "\n")
			text, cleared := strings.CutSuffix(line, "\x1b[K")
			if !ended || !cleared {
				t.Fatalf("a line that does not replace the old one: %q", line)
			}
			for row >= len(lines) {
				lines = append(lines, "")
			}
			lines[row] = text
			row++
			written = rest
		}
	}
	return lines
}

func TestScreenDrawsOverTheLastScene(t *testing.T) {
	var w strings.Builder
	width := 200
	s := &screen{w: &w, live: true, width: func() int { return width }}
	first := scene{rps: 5, tenants: []tally{{name: "alice", burst: 4}}}
	last := scene{rps: 5, tenants: []tally{{name: "alice", burst: 4, accepted: 4, released: 3}}}
	for _, sc := range []scene{first, last, last} {
		if err := s.show(sc); err != nil {
			t.Fatal(err)
		}
	}
	if got := terminal(t, w.String()); !slices.Equal(got, last.frame()) {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(last.frame(), "\n"))
	}

	// A narrow terminal would wrap long lines and shift everything.
	w.Reset()
	width = 20
	if err := s.show(last); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(w.String()) {
		_, text, _ := strings.Cut(line, "\r")
		if text == "" {
			text = line
		}
		if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\x1b[K\n")); n >= width {
			t.Errorf("%d columns on a terminal of %d: %q", n, width, text)
		}
	}
}

func TestScreenWritesPlainLinesIntoAFile(t *testing.T) {
	var w strings.Builder
	s := newScreen(&w)
	for range 2 {
		if err := s.show(scene{tenants: []tally{{name: "alice", burst: 4}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.String(); strings.Count(got, "\n") != 2 || strings.ContainsRune(got, '\x1b') {
		t.Errorf("not two plain lines: %q", got)
	}
}

func TestFollowEnds(t *testing.T) {
	waiting := scene{tenants: []tally{{name: "alice", burst: 1}}}
	delivered := scene{tenants: []tally{{name: "alice", burst: 1, accepted: 1, released: 1, delivered: 1}}}
	full := errors.New("disk full")
	closed := make(chan struct{})
	close(closed)
	tests := []struct {
		name    string
		w       io.Writer
		stopped <-chan struct{}
		after   time.Duration // when all is delivered
		want    string        // part of the error
		took    time.Duration
	}{
		{name: "when all is delivered", w: io.Discard, after: 2500 * time.Millisecond, took: 3 * time.Second},
		{name: "when the node stops", w: io.Discard, stopped: closed, after: time.Hour, want: "the node has stopped"},
		{name: "when the output fails", w: failing{full}, after: time.Hour, want: "disk full"},
		{name: "when the time is over", w: io.Discard, after: time.Hour, want: "in time", took: time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errSlow)
				defer cancel()
				err := newScreen(tt.w).follow(ctx, tt.stopped, func() scene {
					if time.Since(began) >= tt.after {
						return delivered
					}
					return waiting
				})
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// failing is an output that cannot be written.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
