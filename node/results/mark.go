package results

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

// markTTL is how long the mark of a process that has ended stays.
const markTTL = time.Hour

// mark is what a process leaves in Valkey, to see whether that still has what it was told. It is a number that grows,
// so that a Valkey that comes back with what it had a while ago shows too. One goroutine owns it.
type mark struct {
	name   string // nobody else has it
	number uint64 // as it was left last; 0: not yet
}

func newMark(prefix string) mark { return mark{name: prefix + "mark:" + rand.Text()} }

// Lost reports whether there may be something that Valkey does not know: because it has lost what it was told before the
// last call, or because it was not told, as too much waited. The latter is said when there is room again. It is true for
// the first call that Valkey answers. An error says nothing. The calls come one after another, the more often the sooner a
// loss shows.
func (r *Region) Lost(ctx context.Context) (bool, error) {
	m := &r.mark
	next := strconv.FormatUint(m.number+1, 10)
	found, err := link.Do(ctx, r.recording, func(ctx context.Context, c valkey.Client) (string, error) {
		return orNothing(c.Do(ctx, c.B().Set().Key(m.name).Value(next).Get().Px(markTTL).Build()))
	})
	if err != nil {
		return false, err
	}
	last := strconv.FormatUint(m.number, 10)
	m.number++
	gone := found != last && found != next // next is there if only its answer was lost
	owed := r.waiting.roomy() && r.owing.Swap(false)
	return gone || owed, nil
}
