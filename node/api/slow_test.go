package api_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Whoever falls behind loses progress, is told so, and still gets the end.
func TestSlowStreamKeepsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.put(queuedJob(1, 1))
		resp := open(t, client.InProcess(f.handler()), "")
		synctest.Wait() // the stream waits for its reader
		for n := 1; n <= 30; n++ {
			s.State, _ = s.State.Begin(n)
			f.hub.Publish(idOf(1), events.Dispatching(s))
			s.State, _ = s.State.Retry(job.Attempt{Number: n, Status: 500, RetryWaitMS: 1}, 1)
			f.hub.Publish(idOf(1), events.Retrying(s, "upstream returned 500"))
		}
		s.State, _ = s.State.Finish(job.End{Status: job.Failed, Reason: "upstream returned 500"})
		f.hub.Publish(idOf(1), events.Terminal(s, nil))
		list := listen(t, resp)
		text := texts(list)
		last := list[len(list)-1].text
		if !strings.Contains(text, "event: gap\n") || !strings.Contains(text, `"reason":"slow_reader"`) || !strings.Contains(last, "event: failed\n") {
			t.Errorf("streamed %s", text)
		}
		seq := 0
		for _, h := range list[1:] {
			id, _, _ := strings.Cut(strings.TrimPrefix(h.text, "id: "), "\n")
			n, err := strconv.Atoi(id)
			if err != nil || n < seq {
				t.Errorf("id %q behind %d", id, seq)
			}
			seq = n
		}
	})
}
