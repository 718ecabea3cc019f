package gossip

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Why something was dropped.
const (
	dropUndecryptable = "undecryptable"
	dropOverflow      = "overflow"
	dropForeign       = "foreign"
	dropMalformed     = "malformed"
)

// quietFor is how long nothing more is logged of the same kind: anybody can send packets to the port.
const quietFor = 10 * time.Second

// scribe takes memberlist's log, which is text, and is the only place where memberlist tells of what it has
// dropped.
type scribe struct {
	logger  *slog.Logger
	dropped *prometheus.CounterVec

	// mu guards logged and silent, by kind.
	mu     sync.Mutex
	logged map[string]time.Time
	silent map[string]int
}

func newScribe(l *slog.Logger, dropped *prometheus.CounterVec) *log.Logger {
	return log.New(&scribe{logger: l, dropped: dropped, logged: make(map[string]time.Time), silent: make(map[string]int)}, "", 0)
}

func (s *scribe) Write(line []byte) (int, error) {
	level, text := parseLine(line)
	if level == slog.LevelDebug {
		s.logger.Debug("gossip", "text", text)
		return len(line), nil
	}
	reason := dropReason(text)
	if reason == "" {
		if more, ok := s.may(kind(text)); ok {
			s.logger.Info("gossip", "text", text, "more_since_last_time", more)
		}
		return len(line), nil
	}
	s.dropped.WithLabelValues(reason).Inc()
	if more, ok := s.may(reason); ok {
		s.logger.Warn("gossip was dropped", "reason", reason, "text", text, "more_since_last_time", more)
	}
	return len(line), nil
}

// may reports whether something of this kind may be logged again, and how much was not logged since the last time.
func (s *scribe) may(kind string) (more int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, logged := s.logged[kind]; logged && time.Since(last) < quietFor {
		s.silent[kind]++
		return 0, false
	}
	more = s.silent[kind]
	s.silent[kind], s.logged[kind] = 0, time.Now()
	return more, true
}

// kind is what is the same in all texts of one format of memberlist: its first two words.
func kind(text string) string {
	first, rest, _ := strings.Cut(text, " ")
	second, _, _ := strings.Cut(rest, " ")
	return first + " " + second
}

// parseLine reads "[LEVEL] memberlist: text". What is below a warning is memberlist's daily work.
func parseLine(line []byte) (slog.Level, string) {
	text := string(bytes.TrimSpace(line))
	level := slog.LevelDebug
	if word, rest, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(word, "[") {
		text = rest
		if word == "[ERR" || word == "[ERROR" || word == "[WARN" {
			level = slog.LevelInfo
		}
	}
	return level, strings.TrimPrefix(text, "memberlist: ")
}

// dropReason tells by memberlist's words whether and why it has dropped something. The words are those of
// v0.7.0; TestCL05 provokes them.
func dropReason(text string) string {
	for _, r := range []struct {
		reason string
		words  []string
	}{
		{dropForeign, []string{foreignWords}},
		{dropUndecryptable, []string{
			"Decrypt packet failed", "could decrypt the message", "encryption is configured but", "encryption is not configured",
			"unsupported encryption version", "too small to decrypt", "cannot decrypt",
		}},
		{dropOverflow, []string{"queue full", "Too many pending"}},
		{dropMalformed, []string{
			"ailed to decode", "ailed to decompress", "ailed to receive", "ailed to read remote state", "label header", "decode label", "unacceptable label", "truncated",
			"not supported", "nvalid msgType", "missing message type", "Vsn is not present", "protocol version", "invalid checksum", "push/pull merge",
			"too short", "exceeds limit", badAddressWords,
		}},
	} {
		for _, w := range r.words {
			if strings.Contains(text, w) {
				return r.reason
			}
		}
	}
	return ""
}
