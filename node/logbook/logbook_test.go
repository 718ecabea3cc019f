package logbook_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/logbook"
)

// What a logger was given once is in each of its lines, and in those of no other.
func TestWithIsKept(t *testing.T) {
	var b logbook.Book
	l := b.Logger()
	one := l.With("token", "s3cret").WithGroup("call").With("n", 1)
	one.Info("first", "host", "a")
	l.With("other", 2).Warn("second", slog.Group("g", "k", "v"))
	lines := b.Lines()
	for _, want := range []string{"token=s3cret", "n=1", "host=a"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q lacks %s", lines[0], want)
		}
	}
	if strings.Contains(lines[1], "s3cret") || !strings.Contains(lines[1], "other=2") {
		t.Errorf("%q", lines[1])
	}
}
