// Package logbook keeps what is logged in memory, so that tests can look it up.
package logbook

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Book keeps records of all levels, whole and in order. The zero Book is empty. It is safe for concurrent
// use.
type Book struct {
	mu    sync.Mutex // guards lines
	lines []slog.Record
}

// shown is how many of the last lines String shows.
const shown = 200

// Logger returns a logger that writes into the book.
func (b *Book) Logger() *slog.Logger { return slog.New(handler{book: b}) }

// Lines returns every line.
func (b *Book) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]string, len(b.lines))
	for i, r := range b.lines {
		list[i] = line(r)
	}
	return list
}

// Count returns how many lines have this text in them.
func (b *Book) Count(text string) int {
	n := 0
	for _, line := range b.Lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Failures returns the lines that report errors.
func (b *Book) Failures() []string {
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
func (b *Book) String() string {
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

// handler puts records into a book. What loggers were given once, by With, stands before what a line has itself; the names of
// groups are left out.
type handler struct {
	book  *Book
	given []slog.Attr
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	whole := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	whole.AddAttrs(h.given...)
	r.Attrs(func(a slog.Attr) bool {
		whole.AddAttrs(a)
		return true
	})
	h.book.lines = append(h.book.lines, whole)
	return nil
}

func (h handler) WithAttrs(given []slog.Attr) slog.Handler {
	return handler{h.book, slices.Concat(h.given, given)}
}

func (h handler) WithGroup(string) slog.Handler { return h }
