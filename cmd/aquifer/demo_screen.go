package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"
)

// screen shows scenes: on a terminal it draws each over the last one, else it writes a line for each.
// It belongs to one goroutine.
type screen struct {
	w     io.Writer
	live  bool
	width func() int // columns; nil means that nothing is cut
	drawn int        // lines of the scene that is on the terminal
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, live: isTerminal(w)}
	if f, ok := w.(interface{ Fd() uintptr }); ok && s.live {
		s.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return width
		}
	}
	return s
}

// period is how often a scene is shown.
func (s *screen) period() time.Duration {
	if s.live {
		return 100 * time.Millisecond
	}
	return time.Second
}

// follow shows how things go until they are done. It fails when ctx ends or the node has stopped.
func (s *screen) follow(ctx context.Context, stopped <-chan struct{}, look func() scene) error {
	tick := time.NewTicker(s.period())
	defer tick.Stop()
	for {
		now := look()
		if err := s.show(now); err != nil || now.done() {
			return err
		}
		select {
		case <-tick.C:
		case <-stopped:
			return errors.New("the node has stopped in the middle of the demo")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// show shows one scene.
func (s *screen) show(sc scene) error {
	if !s.live {
		_, err := fmt.Fprintln(s.w, sc.line())
		return err
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	lines := sc.frame()
	for _, line := range lines {
		b.WriteString(s.cut(line) + "\x1b[K\n")
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.w, b.String())
	return err
}

// cut keeps a line from wrapping, which would break the count of lines.
func (s *screen) cut(line string) string {
	if s.width == nil {
		return line
	}
	if r, width := []rune(line), max(s.width()-1, 0); len(r) > width {
		return string(r[:width])
	}
	return line
}
