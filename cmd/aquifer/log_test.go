package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestLoggerForms(t *testing.T) {
	for form, isJSON := range map[string]bool{"auto": true, "json": true, "text": false} {
		var w strings.Builder
		logger := newLogger(&w, form, slog.LevelInfo)
		logger.Debug("not this")
		logger.Info("this", "key", "value")
		got := w.String()
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, "this") || !strings.Contains(got, "value") {
			t.Errorf("%s: %q", form, got)
		}
		if json.Valid([]byte(got)) != isJSON {
			t.Errorf("%s: JSON is %v: %q", form, !isJSON, got)
		}
		if strings.ContainsRune(got, '\x1b') {
			t.Errorf("%s: colours in a file: %q", form, got)
		}
	}
}
