package main

import (
	"io"
	"log/slog"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// newLogger returns the log of a node: form is auto, json or text. Text is for people; auto takes it
// when w is a terminal.
func newLogger(w io.Writer, form string, level slog.Leveler) *slog.Logger {
	terminal := isTerminal(w)
	if form == "text" || (form == "auto" && terminal) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// isTerminal reports whether a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
