//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// armed is what this process was told, once, before it started to work.
var armed atomic.Pointer[trap]

type trap struct {
	at   Point
	left atomic.Int64
}

// Arm makes the process kill itself when it reaches a point for the n-th time: "point:n". A point that
// it would never reach is refused.
func Arm(spec string) error {
	name, count, _ := strings.Cut(spec, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 || !slices.Contains(Points(), Point(name)) {
		return fmt.Errorf("crash point must be name:count with one of the names %v and a count from 1, got %q", Points(), spec)
	}
	t := &trap{at: Point(name)}
	t.left.Store(n)
	armed.Store(t)
	return nil
}

// Reach marks that the process has come to p, and ends it there if it was told to.
func Reach(p Point) {
	if t := armed.Load(); t != nil && t.at == p && t.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
