package nodetest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logbook keeps what a process logs.
type logbook struct {
	mu    sync.Mutex // guards lines
	lines []slog.Record
}

// shown is how many of the last lines a failed test shows.
const shown = 200

func (b *logbook) logger() *slog.Logger { return slog.New(logHandler{b}) }

// all returns every line.
func (b *logbook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]string, len(b.lines))
	for i, r := range b.lines {
		list[i] = line(r)
	}
	return list
}

// failures returns the lines that report errors.
func (b *logbook) failures() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, r := range b.lines {
		if r.Level >= slog.LevelError {
			list = append(list, line(r))
		}
	}
	return list
}

// String is the end of the log.
func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s strings.Builder
	for _, r := range b.lines[max(len(b.lines)-shown, 0):] {
		s.WriteString(line(r) + "\n")
	}
	return s.String()
}

func line(r slog.Record) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %s", r.Time.Format(time.TimeOnly+".000"), r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&s, " %s=%v", a.Key, a.Value)
		return true
	})
	return s.String()
}

// logHandler puts records into a logbook. What loggers were given once, by With, is left out.
type logHandler struct{ book *logbook }

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.book.lines = append(h.book.lines, r.Clone())
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }
