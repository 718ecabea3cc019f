package nodetest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// course is what a target does with the attempts of a job, the last reply again and again, and how the
// job must go: one way, or one of several where that depends on whether the connection had been used before.
type course struct {
	replies []nodetest.Reply
	want    string
}

func courses() map[string]course {
	type replies = []nodetest.Reply
	ok := nodetest.Text("done")
	tooLong := nodetest.Text("short").Announce(4000).CloseAfter(1 << 10)
	return map[string]course{
		"answers":              {replies{ok}, "completed 200: 200"},
		"answers late":         {replies{ok.Late(5 * time.Second)}, "completed 200: 200"},
		"refuses":              {replies{nodetest.Status(404)}, "completed 404: 404"},
		"fails once":           {replies{nodetest.Status(500), ok}, "completed 200: 500 200"},
		"fails always":         {replies{nodetest.Status(500).Body("no")}, "failed 500: 500 500 500"},
		"is busy once":         {replies{nodetest.Status(429).With("Retry-After", "3"), ok}, "completed 200: 429 200"},
		"hangs once":           {replies{nodetest.Hang(), ok}, "completed 200: timeout 200"},
		"hangs always":         {replies{nodetest.Hang()}, "failed 0: timeout timeout timeout"},
		"hangs in its answer":  {replies{ok.HangAfter(30), ok}, "completed 200: timeout 200"},
		"is slow":              {replies{ok.Trickle(50 * time.Millisecond)}, "completed 200: 200"},
		"is too slow":          {replies{ok.Trickle(time.Second), ok}, "completed 200: timeout 200"},
		"resets":               {replies{nodetest.Reset(), ok}, "completed 200: conn_reset 200|completed 200: conn_closed_before_response 200"},
		"resets in its answer": {replies{ok.ResetAfter(30), ok}, "completed 200: conn_reset 200"},
		"closes":               {replies{ok.CloseAfter(0), ok}, "completed 200: conn_closed_before_response 200"},
		"announces too much":   {replies{tooLong, ok}, "completed 200: response_truncated 200"},
		"sends garbage":        {replies{nodetest.Raw("what?\r\n\r\n"), ok}, "completed 200: protocol_error 200"},
	}
}

// A thousand jobs of many tenants at a target that does everything that targets do: each ends as it
// must, its result is delivered once, and nothing is left.
func TestThousandJobs(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		all := courses()
		names := slices.Sorted(maps.Keys(all))
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			replies, attempt := all[r.Header.Get("X-Course")].replies, 0
			_, _ = fmt.Sscan(r.Header.Get("X-Aqueduct-Attempt"), &attempt)
			return replies[min(attempt, len(replies))-1]
		})
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = s.submit(user(fmt.Sprint("user-", i%13)), retries(2), timeout(10*time.Second), func(sub *client.Submission) {
				sub.Headers = map[string]string{"X-Course": names[i%len(names)]}
			})
		}
		s.node.WaitIdle()

		for i, id := range ids {
			name := names[i%len(names)]
			course, end, ok := strings.Cut(story(s.get(id)), "; ")
			if !ok || end != "delivered after 1" || !slices.Contains(strings.Split(all[name].want, "|"), course) {
				t.Errorf("target that %s: job went %q, was %s, want %q", name, course, end, all[name].want)
			}
		}
		delivered := map[string]int{}
		for _, d := range s.receiver.Deliveries() {
			delivered[d.Message.JobID]++
		}
		for _, id := range ids {
			if delivered[id] != 1 {
				t.Errorf("job %s was delivered %d times", id, delivered[id])
			}
		}
		if s.target.Open() != 0 {
			t.Errorf("%d requests are open", s.target.Open())
		}
	}, takes(50, 20))
}
