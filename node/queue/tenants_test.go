package queue

import (
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Users are told apart whatever API keys they use, as soon as one job of each tenant has told whose it is; and they are
// busy as long as any of their work is, wherever it waits.
func TestUsersWithWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fates := make(chan Verdict, 10)
		q := newRig(Config{Window: 2, CountTenants: true, Settings: settings(1000, 1), Runner: runner(func(*Turn) Verdict { return <-fates })})
		const ada, other, bob = 1, 2, 3
		is := func(users int, adas, bobs bool) {
			t.Helper()
			if n, a, b := q.Users(), q.Works("ada"), q.Works("bob"); n != users || a != adas || b != bobs {
				t.Errorf("%d users, ada %v, bob %v; want %d, %v, %v", n, a, b, users, adas, bobs)
			}
		}
		name := func() {
			t.Helper()
			for who, id := range q.Unnamed(10) {
				if id.IsZero() {
					t.Errorf("no job of %x", who)
				}
				q.Name(who, map[job.Lane]string{laneOf("x", ada): "ada", laneOf("x", other): "ada", laneOf("x", bob): "bob"}[job.Lane{Target: "http://x", Tenant: who}])
			}
		}
		is(0, false, false)
		for i := range 5 { // more than the window, as after a restart
			q.Restore(q.disk.insert(laneOf("x", ada), id(100+i)))
		}
		q.RestoreWaiting(laneOf("y", other), id(200))
		is(2, false, false)
		if n := len(q.Unnamed(1)); n != 1 {
			t.Errorf("%d tenants without a name, want 1", n)
		}
		name()
		is(1, true, false)
		q.Reserve(laneOf("y", bob), id(300)).Cancel()
		if n := len(q.Unnamed(10)); n != 0 {
			t.Errorf("%d tenants without a name and without work", n)
		}
		q.Name(laneOf("y", bob).Tenant, "bob")
		is(1, true, false)
		q.add(laneOf("y", bob), 1)
		name()
		is(2, true, true)

		for range 6 {
			fates <- Ended
		}
		stop := q.start(t)
		if err := q.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		is(1, true, false) // what waits for a retry
		q.Gone(laneOf("y", other), id(200))
		is(0, false, false)
		q.add(job.Lane{Target: "http://x"}, 1)
		is(1, true, true) // as it may be anybody's
		if n := len(q.Unnamed(10)); n != 0 {
			t.Errorf("those that share a lane are %d tenants", n)
		}
	})
}

// The job that tells whose a tenant is must be there to be read: one that is only reserved, or was refused, is not, and
// one that has ended may be gone.
func TestTenantIsToldByStoredJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Window: 2, CountTenants: true, Settings: settings(1000, 1)})
		ada, bob := laneOf("x", 1), laneOf("x", 2)
		tells := func(l job.Lane, want job.ID) {
			t.Helper()
			if got, ok := q.Unnamed(10)[l.Tenant]; !ok || got != want {
				t.Errorf("job %s tells whose the tenant is (%v), want %s", got, ok, want)
			}
		}
		first := q.Reserve(ada, id(1))
		tells(ada, job.ID{})
		first.Push(q.disk.insert(ada, id(1)), nil)
		tells(ada, id(1))
		q.Reserve(ada, id(300)).Cancel()
		tells(ada, id(1))
		refused, _ := q.Join(ada, id(301))
		refused.Cancel()
		tells(ada, id(1))
		q.RestoreWaiting(laneOf("y", 1), id(2))
		tells(ada, id(2))
		q.Gone(laneOf("y", 1), id(400))
		tells(ada, id(2))

		q.Reserve(bob, id(5)).Push(q.disk.insert(bob, id(5)), &job.Snapshot{Job: &job.Job{Request: job.Request{UserID: "bob"}}})
		if _, unnamed := q.Unnamed(10)[bob.Tenant]; unnamed || !q.Works("bob") {
			t.Error("a job at hand does not tell whose its tenant is")
		}
		nobody := job.Lane{Target: "http://x"}
		q.Reserve(nobody, id(6)).Push(q.disk.insert(nobody, id(6)), &job.Snapshot{Job: &job.Job{Request: job.Request{UserID: "eve"}}})
		if q.Users() != 3 {
			t.Errorf("%d users, want ada, bob, and those who share a lane", q.Users())
		}
	})
}

// What went past the queue tells whose it is as what waits does, once it is stored.
func TestTenantPastTheQueueIsToldByStoredJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := newRig(Config{Window: 2, CountTenants: true, Settings: settings(1000, 2)})
		stop := q.start(t)
		ada := laneOf("x", 1)
		synctest.Wait()
		p, _ := q.Direct(ada, id(1))
		if got := q.Unnamed(10)[ada.Tenant]; !got.IsZero() {
			t.Errorf("job %s is to tell, which is not stored", got)
		}
		p.Start(q.disk.insert(ada, id(1)), nil, runner(func(*Turn) Verdict { <-hold; return Ended }))
		if got := q.Unnamed(10)[ada.Tenant]; got != id(1) {
			t.Errorf("job %s tells, want %s", got, id(1))
		}
		close(hold)
		q.idle(t)
		stop()
	})
}
