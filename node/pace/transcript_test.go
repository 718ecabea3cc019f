package pace

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The transcripts under testdata are stories of one target, told by commands, with what comes of them
// indented below each. go test -update writes what comes of them; the difference is for a person to judge.
//
//	target rps=10 max=4 [slow] [use] [ttl=30s] [idle=5m]    the settings
//	answers TENANT TIME STATUS [Header: value; ...]         what the target answers from now on; * is everybody
//	jobs TENANT NUMBER                                      jobs join the tenant's queue
//	run TIME [TIME]                                         time passes; shown at the end of each second TIME
//	eta TENANT AHEAD                                        when a waiting job starts, and why not now
//	clear                                                   an operator clears the slow-downs of tenants
var update = flag.Bool("update", false, "write the transcripts under testdata")

func TestTranscripts(t *testing.T) {
	transcripts(t, "testdata/*.txt", func() teller { return newSim(Settings{}) })
}

// teller carries out the commands of a transcript, and writes down what comes of them.
type teller interface {
	command(out *strings.Builder, words []string) error
}

// transcripts plays those that a pattern finds, each with a teller of its own.
func transcripts(t *testing.T, pattern string, begin func() teller) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(was), begin())
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, string(was), got)
		})
	}
}

// compare reports the first line that differs.
func compare(t *testing.T, was, got string) {
	t.Helper()
	a, b := strings.Split(was, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("line %d\n was %s\n now %s", i+1, a[i], b[i])
			return
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d lines, now %d", len(a), len(b))
	}
}

// tell plays a transcript and returns it as it should be.
func tell(t *testing.T, story string, s teller) string {
	var out strings.Builder
	for line := range strings.Lines(story) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			if err := s.command(&out, words); err != nil {
				t.Fatalf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
	return out.String()
}

func (s *sim) command(out *strings.Builder, words []string) error {
	verb, args := words[0], append(words[1:], "", "", "")
	switch verb {
	case "target":
		set, err := settings(words[1:])
		s.target.Configure(set)
		return err
	case "answers":
		return s.answers(args)
	case "jobs":
		n, err := strconv.Atoi(args[1])
		s.add(s.party(args[0]), n)
		return err
	case "run":
		return s.show(out, args[0], args[1])
	case "eta":
		return s.eta(out, args[0], args[1])
	case "clear":
		s.target.ClearSlowDowns()
		return nil
	}
	return fmt.Errorf("no such command")
}

func settings(args []string) (Settings, error) {
	var s Settings
	var err error
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "rps":
			s.RPS, err = strconv.ParseFloat(value, 64)
		case "max":
			s.MaxConcurrent, err = strconv.Atoi(value)
		case "slow":
			s.SlowStart = true
		case "use":
			s.Fairness = ByUse
		case "ttl":
			s.HintTTL, err = time.ParseDuration(value)
		case "idle":
			s.Idle, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no setting %s", name)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *sim) answers(args []string) error {
	took, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	status, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	h := fields(args[3:])
	for _, p := range s.parties {
		if args[0] == "*" || args[0] == p.name {
			p.reply = reply{took, status, h}
		}
	}
	return nil
}

// fields are the headers at the end of a command.
func fields(args []string) http.Header {
	h := http.Header{}
	for field := range strings.SplitSeq(strings.TrimSpace(strings.Join(args, " ")), ";") {
		name, value, _ := strings.Cut(field, ":")
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h
}

func (s *sim) show(out *strings.Builder, span, step string) error {
	if step == "" {
		step = span
	}
	whole, err := time.ParseDuration(span)
	if err != nil {
		return err
	}
	each, err := time.ParseDuration(step)
	if err != nil {
		return err
	}
	for end := s.now + whole; s.now < end; {
		sent := map[*party]int{}
		for _, p := range s.parties {
			sent[p] = p.sent
		}
		s.run(min(each, end-s.now))
		s.row(out, sent)
	}
	return nil
}

// row shows how things stand, and what each tenant has sent since.
func (s *sim) row(out *strings.Builder, before map[*party]int) {
	l := s.target.Budget().Limits(s.at())
	fmt.Fprintf(out, "  %6v  %s  open %d of %s ", s.now, shown(l.RPS, "%.2f rps"), len(s.open), shown(l.MaxConcurrent, "%.0f"))
	for _, p := range s.parties {
		fmt.Fprintf(out, "  %s +%d", p.name, p.sent-before[p])
		if p.flow.OwnRate() > 0 {
			fmt.Fprintf(out, " at %.2f rps", p.flow.OwnRate())
		}
		if left := p.flow.CoolsUntil().Sub(s.at()); left > 0 {
			fmt.Fprintf(out, " cools for %v", left)
		}
	}
	out.WriteString("\n")
}

// shown is a level and where it comes from.
func shown(l Level, format string) string {
	s := fmt.Sprintf(format, l.Value)
	if l.Source == SourceConfigured {
		return s
	}
	s += " (" + l.Source
	if l.Stale {
		s += ", stale"
	}
	return s + ")"
}

func (s *sim) eta(out *strings.Builder, name, ahead string) error {
	n, err := strconv.Atoi(ahead)
	if err != nil {
		return err
	}
	me, others := s.party(name), 0
	for _, p := range s.parties {
		if p != me {
			others += p.jobs
		}
	}
	w := s.target.ETA(&me.flow, n, others, s.at())
	fmt.Fprintf(out, "  in %v, waits for %s\n", w.For.Round(time.Millisecond), w.Reason)
	return nil
}
