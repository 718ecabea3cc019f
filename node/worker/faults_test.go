package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// fates are what the jobs of the fault tables go through, by key: the answers of the target, how often
// the receiver refuses, and what must have come of it.
type fate struct {
	answers  []dispatch.Outcome
	retries  int
	listens  bool
	confirms bool
	hooks    []int // the receiver's answers
	status   job.Status
	webhook  job.WebhookState
}

func fates() map[string]fate {
	ok, busy, reset := answer(200), answer(503), broken(job.ConnReset, egress.Reset)
	return map[string]fate{
		"simple":      {answers: []dispatch.Outcome{ok}, hooks: []int{200}, status: job.Completed, webhook: job.WebhookDelivered},
		"retried":     {answers: []dispatch.Outcome{busy, reset, ok}, retries: 4, hooks: []int{200}, status: job.Completed, webhook: job.WebhookDelivered},
		"fails":       {answers: []dispatch.Outcome{busy, busy}, retries: 1, hooks: []int{200}, status: job.Failed, webhook: job.WebhookDelivered},
		"confirmed":   {answers: []dispatch.Outcome{ok}, listens: true, confirms: true, status: job.Completed, webhook: job.WebhookSkipped},
		"unconfirmed": {answers: []dispatch.Outcome{ok}, listens: true, hooks: []int{200}, status: job.Completed, webhook: job.WebhookDelivered},
		"owed":        {answers: []dispatch.Outcome{ok}, hooks: []int{503, 200}, status: job.Completed, webhook: job.WebhookDelivered},
		"rejected":    {answers: []dispatch.Outcome{ok}, hooks: []int{410}, status: job.Completed, webhook: job.WebhookRejected},
	}
}

// trial runs all fates on a node whose store fails, and checks that each of them is fulfilled: nothing
// is lost, nothing runs or is delivered more often than it must, nothing is left behind.
func trial(t *testing.T, breaks func(*storetest.Disk)) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		all, ids := fates(), map[string]job.ID{}
		r.target.script = func(ctx context.Context, s sent) dispatch.Outcome {
			for key, id := range ids {
				if id.String() == s.ID {
					return answers(all[key].answers...)(ctx, s)
				}
			}
			t.Errorf("a call of a job that nobody knows: %s", s.ID)
			return answer(200)
		}
		r.receiver.script = func(n int, body string) int {
			for key, id := range ids {
				if hooks := all[key].hooks; strings.Contains(body, id.String()) && n <= len(hooks) {
					return hooks[n-1]
				}
			}
			return 200
		}
		breaks(r.disk)
		for key, f := range all {
			id := r.accepted(request("user-"+key[:1], key, retries(f.retries)))
			ids[key] = id
			if f.listens {
				r.listen(id, f.confirms)
			}
		}
		r.start()
		defer r.stop()
		r.settled()
		for key, f := range all {
			r.fulfilled(key, ids[key], f)
		}
	})
}

// accepted submits like a caller does: again, a little later, until the job is acknowledged.
func (r *rig) accepted(q *job.Request) job.ID {
	r.t.Helper()
	for range 1000 {
		got, err := r.intake.Submit(r.t.Context(), intake.Submission{Request: q})
		if err == nil {
			r.ids = append(r.ids, got.ID)
			return got.ID
		}
		if !fault.Is(err, fault.Unavailable) {
			r.t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	r.t.Fatal("never accepted")
	return job.ID{}
}

func (r *rig) fulfilled(key string, id job.ID, f fate) {
	r.t.Helper()
	s := r.get(id)
	if s.State.Phase() != f.status || s.Webhook.State != f.webhook || len(s.State.Attempts) != len(f.answers) {
		r.t.Errorf("%s: got %+v, %+v", key, s.State, s.Webhook)
	}
	if n := len(r.target.of(id)); n != len(f.answers) {
		r.t.Errorf("%s: %d calls, want %d", key, n, len(f.answers))
	}
	if n := len(r.receiver.got(id)); n != len(f.hooks) {
		r.t.Errorf("%s: %d webhooks, want %d", key, n, len(f.hooks))
	}
}

// Every step of the store, failed and failed but landed, once and several times, at its first calls and
// at later ones.
func TestFaultsOfEveryStep(t *testing.T) {
	for _, method := range []string{"Insert", "Begin", "Retry", "Finish", "Settle", "Requeue", "Postpone"} {
		for _, landed := range []bool{false, true} {
			for _, n := range []int{1, 3, 12} {
				for _, skip := range []int{0, 2} {
					t.Run(fmt.Sprintf("%s/landed=%v/%d after %d", method, landed, n, skip), func(t *testing.T) {
						trial(t, func(d *storetest.Disk) { d.SetFault(after(method, skip, storetest.Failing(method, n, landed))) })
					})
				}
			}
		}
	}
}

// after lets the first calls of a method pass.
func after(method string, skip int, f storetest.Fault) storetest.Fault {
	return func(m string) (bool, error) {
		if m == method && skip > 0 {
			skip--
			return true, nil
		}
		return f(m)
	}
}

// Everything fails for a while, landed or not as it comes.
func TestFaultsOfAllSteps(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute} {
		for _, odd := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%v/%d", d, odd), func(t *testing.T) {
				trial(t, func(disk *storetest.Disk) {
					calls, start := 0, time.Now()
					disk.SetFault(func(m string) (bool, error) {
						calls++
						if m == "Expire" || time.Since(start) > d {
							return true, nil
						}
						return odd == 2 || odd == 1 && calls%2 == 1, storetest.ErrDisk
					})
				})
			})
		}
	}
}

// The store fails at random.
func TestFaultsNowAndThen(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial(t, func(disk *storetest.Disk) {
				draw := rand.New(rand.NewPCG(seed, 0))
				disk.SetFault(func(m string) (bool, error) {
					if draw.IntN(3) > 0 {
						return true, nil
					}
					return draw.IntN(2) == 0, storetest.ErrDisk
				})
			})
		})
	}
}
