package events_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestHistory(t *testing.T) {
	open := tried(1)
	open.begin()
	done := tried(1)
	done.begin()
	done.complete("")
	droppedWaiting := tried(1)
	droppedWaiting.drop()
	back := tried(1)
	back.requeue()
	broken := tried(0)
	broken.begin()
	broken.end(job.End{Status: job.Failed, Reason: job.ReasonPanic})

	for name, c := range map[string]struct {
		life *life
		want string
	}{
		"just accepted":        {newLife(), "1 queued"},
		"open attempt":         {open, "1 queued, 2 dispatching, 3 retrying, 4 dispatching"},
		"waits for a retry":    {tried(1), "1 queued, 2 dispatching, 3 retrying"},
		"back in its lane":     {back, "1 queued, 2 dispatching, 3 retrying"},
		"completed":            {done, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"dropped in its wait":  {droppedWaiting, "1 queued, 2 dispatching, 3 retrying, 4 failed"},
		"attempt never closed": {broken, "1 queued, 2 dispatching, 4 failed"},
	} {
		t.Run(name, func(t *testing.T) { wantRow(t, events.History(c.life.s), c.want) })
	}
}

func TestHistoryTellsWhyAndUntilWhen(t *testing.T) {
	l := tried(0)
	l.begin()
	l.s.State, _ = l.s.State.Retry(job.Attempt{Number: 1, StartedAt: 1000, DurationMS: 20, Error: job.DNS, RetryWaitMS: 500}, 1523)
	retry := func() events.RetryingData { return events.History(l.s)[2].Data.(events.RetryingData) }
	if got := retry(); got.Reason != "dns" || got.RetryAt != 1523 || got.ResponseStatus != 0 {
		t.Errorf("while it waits: %+v", got)
	}
	l.begin()
	if got := retry(); got.RetryAt != 1520 {
		t.Errorf("later: %+v", got)
	}
}

func TestSinceForANewListener(t *testing.T) {
	open := tried(2)
	open.begin()
	done := tried(2)
	done.begin()
	done.complete("")
	for name, c := range map[string]struct {
		life *life
		want string
	}{
		"just accepted":     {newLife(), "1 queued"},
		"open attempt":      {open, "1 queued, 6 dispatching"},
		"waits for a retry": {tried(2), "1 queued, 5 retrying"},
		"ended":             {done, "1 queued, 8 completed"},
	} {
		t.Run(name, func(t *testing.T) {
			missed, gap := events.Since(c.life.s, "")
			if gap != nil {
				t.Errorf("gap %+v", *gap)
			}
			wantRow(t, missed, c.want)
		})
	}
}

// A cursor that claims too much is worse than none: whoever asks for what is not known is told so.
func TestSE01_ResumeAndGap(t *testing.T) {
	short := tried(1)
	short.begin()
	short.complete("") // 1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed
	long := tried(60)  // keeps attempt 1 and 12..60
	tail := "120 dispatching, 121 retrying"

	for name, c := range map[string]struct {
		life   *life
		lastID string
		gap    events.GapReason
		oldest int
		want   string // the missed events; with long, the end of them
	}{
		"from the start":           {short, "0", "", 0, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"from the middle":          {short, "3", "", 0, "4 dispatching, 6 completed"},
		"before the end":           {short, "4", "", 0, "6 completed"},
		"after the end":            {short, "6", "", 0, ""},
		"no such event":            {short, "5", events.GapUnknown, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"from the future":          {short, "7", events.GapFuture, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"far future":               {short, "99999999999999999999", events.GapFuture, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"negative":                 {short, "-1", events.GapMalformed, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"not canonical":            {short, "03", events.GapMalformed, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"words":                    {short, "3; drop", events.GapMalformed, 1, "1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed"},
		"older than the kept":      {long, "3", events.GapTrimmed, 24, tail},
		"long, from the start":     {long, "0", events.GapTrimmed, 24, tail},
		"long, in the hole":        {long, "22", events.GapTrimmed, 24, tail},
		"long, at the hole's edge": {long, "23", "", 0, tail},
		"long, inside":             {long, "119", "", 0, tail},
		"long, malformed":          {long, "x", events.GapMalformed, 24, tail},
	} {
		t.Run(name, func(t *testing.T) {
			missed, gap := events.Since(c.life.s, c.lastID)
			if (gap != nil) != (c.gap != "") {
				t.Fatalf("gap %v, want %q", gap, c.gap)
			}
			if gap != nil {
				if data := gap.Data.(events.GapData); data.Reason != c.gap || data.Oldest != c.oldest || gap.Name != events.NameGap {
					t.Errorf("got %+v, want oldest %d, reason %s", *gap, c.oldest, c.gap)
				}
				if missed[0].Seq != c.oldest {
					t.Errorf("the gap promises %d, but %d follows", c.oldest, missed[0].Seq)
				}
			}
			if c.life == long {
				missed = missed[len(missed)-2:]
			}
			wantRow(t, missed, c.want)
		})
	}
}

// Every id that a stream ever showed resumes behind itself, and never with an unannounced hole.
func TestResumeFromEveryID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := tried(rapid.IntRange(0, 120).Draw(t, "tried"))
		switch rapid.IntRange(0, 3).Draw(t, "then") {
		case 1:
			l.begin()
		case 2:
			l.begin()
			l.complete("")
		case 3:
			l.drop()
		}
		last := events.CursorAt(l.s).Seq
		for seq := range last + 1 {
			missed, gap := events.Since(l.s, strconv.Itoa(seq))
			next := seq + 1
			if gap != nil {
				next = gap.Data.(events.GapData).Oldest
			}
			if seq < last && len(missed) == 0 {
				t.Fatalf("nothing after %d of %d", seq, last)
			}
			for _, e := range missed {
				if e.Seq != next && !e.Terminal() {
					t.Fatalf("after %d: %s", seq, row(missed))
				}
				next = e.Seq + 1
			}
		}
	})
}

func FuzzSince(f *testing.F) {
	for _, s := range []string{"", "0", "3", "-1", "+1", "007", "99999999999999999999", "1\n", "x"} {
		f.Add(s)
	}
	l := tried(60)
	l.drop()
	f.Fuzz(func(t *testing.T, lastID string) {
		missed, gap := events.Since(l.s, lastID)
		if _, err := strconv.ParseUint(lastID, 10, 32); err != nil && lastID != "" && gap == nil {
			t.Errorf("%q was taken for an id", lastID)
		}
		for i := 1; i < len(missed); i++ {
			if missed[i].Seq <= missed[i-1].Seq {
				t.Errorf("%q: out of order: %s", lastID, row(missed))
			}
		}
	})
}
