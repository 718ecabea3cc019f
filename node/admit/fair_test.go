package admit_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// check compares a decision with the limit that is to be named, nil for none.
func check(t *testing.T, got *fault.Error, want *fault.Limit) {
	t.Helper()
	switch {
	case (got == nil) != (want == nil):
		t.Fatalf("got %v, want %v", got, want)
	case got != nil && (got.Kind != fault.Overloaded || *got.Limit != *want || got.Detail == "" || got.RetryAfter != 0):
		t.Errorf("got %v %+v, want %+v", got, *got.Limit, *want)
	}
}

func TestDecideQueue(t *testing.T) {
	fairShare := func(current int64) *fault.Limit {
		return &fault.Limit{Reason: "queue_fair_share", Limit: 100, Current: current}
	}
	full := func(current int64) *fault.Limit {
		return &fault.Limit{Reason: "upstream_queue", Limit: 100, Current: current}
	}
	for name, c := range map[string]struct {
		backlog admit.Backlog
		draw    float64
		want    *fault.Limit // nil: admitted
	}{
		"no budget":                    {admit.Backlog{Budget: 0, Queue: 1 << 40, Target: 1 << 40, Active: 2}, 0, nil},
		"a negative budget":            {admit.Backlog{Budget: -1, Queue: 1, Target: 1, Active: 1}, 0, nil},
		"the first job":                {admit.Backlog{Budget: 100, Queue: 1, Target: 1, Active: 1}, 0, nil},
		"alone, the last of the room":  {admit.Backlog{Budget: 100, Queue: 100, Target: 100, Active: 1}, 0, nil},
		"alone, no room":               {admit.Backlog{Budget: 100, Queue: 101, Target: 101, Active: 1}, 0.99, full(100)},
		"no pressure":                  {admit.Backlog{Budget: 100, Queue: 69, Target: 70, Active: 2}, 0, nil},
		"pressure, within the share":   {admit.Backlog{Budget: 100, Queue: 50, Target: 100, Active: 2}, 0, nil},
		"pressure 1/2, excess 1/2, no": {admit.Backlog{Budget: 100, Queue: 75, Target: 85, Active: 2}, 0.249, fairShare(84)},
		"pressure 1/2, excess 1/2":     {admit.Backlog{Budget: 100, Queue: 75, Target: 85, Active: 2}, 0.251, nil},
		"the last of the room, 1/2":    {admit.Backlog{Budget: 100, Queue: 75, Target: 100, Active: 2}, 0.499, fairShare(99)},
		"the last of the room":         {admit.Backlog{Budget: 100, Queue: 75, Target: 100, Active: 2}, 0.5, nil},
		"full, above the share":        {admit.Backlog{Budget: 100, Queue: 51, Target: 101, Active: 2}, 0.99, fairShare(100)},
		"full, within the share":       {admit.Backlog{Budget: 100, Queue: 50, Target: 101, Active: 2}, 0, nil},
		"the last of the allowance":    {admit.Backlog{Budget: 100, Queue: 1, Target: 125, Active: 2}, 0, nil},
		"the allowance is used up":     {admit.Backlog{Budget: 100, Queue: 1, Target: 126, Active: 2}, 0.99, full(125)},
		"far over, above the share":    {admit.Backlog{Budget: 100, Queue: 90, Target: 126, Active: 2}, 0.99, full(125)},
		"more queues than budget":      {admit.Backlog{Budget: 100, Queue: 1, Target: 110, Active: 110}, 0, nil},
		"and a second job of one":      {admit.Backlog{Budget: 100, Queue: 2, Target: 111, Active: 110}, 0.99, fairShare(110)},
		"an allowance is whole jobs":   {admit.Backlog{Budget: 3, Queue: 1, Target: 4, Active: 3}, 0.99, &fault.Limit{Reason: "upstream_queue", Limit: 3, Current: 3}},
		"the greatest budget":          {admit.Backlog{Budget: math.MaxInt, Queue: 1, Target: math.MaxInt, Active: 2}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) { check(t, admit.DecideQueue(c.backlog, c.draw), c.want) })
	}
}

// The backlog is at 110 % of the budget: who has most of it waits, who has nothing comes in.
func TestFA01AQuietTenantJoinsAFullTarget(t *testing.T) {
	for _, draw := range []float64{0, 0.5, 0.999} {
		a := admit.DecideQueue(admit.Backlog{Budget: 1000, Queue: 1101, Target: 1101, Active: 2}, draw)
		check(t, a, &fault.Limit{Reason: "queue_fair_share", Limit: 1000, Current: 1100})
		check(t, admit.DecideQueue(admit.Backlog{Budget: 1000, Queue: 1, Target: 1101, Active: 2}, draw), nil)
		if !strings.Contains(a.Detail, "1100") || !strings.Contains(a.Detail, "500") {
			t.Errorf("what A has and what its share is do not stand in %q", a.Detail)
		}
	}
}

func TestPressure(t *testing.T) {
	for _, c := range []struct {
		budget, target int
		want           float64
	}{
		{0, 1000, 0}, {-5, 1000, 0},
		{100, 0, 0}, {100, 70, 0}, {100, 85, 0.5}, {100, 100, 1}, {100, 1000, 1}, {1, 1, 1}, {10_000, 7_003, 0.001},
	} {
		if got := (admit.Backlog{Budget: c.budget, Target: c.target}).Pressure(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of %d: got %v, want %v", c.target, c.budget, got, c.want)
		}
	}
}

func backlogs() *rapid.Generator[admit.Backlog] {
	return rapid.Custom(func(t *rapid.T) admit.Backlog {
		budget := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(1, 1_000_000)).Draw(t, "budget")
		others := rapid.IntRange(0, budget+budget/2+2).Draw(t, "jobs of others")
		queue := rapid.IntRange(1, budget+budget/2+2).Draw(t, "jobs of the queue")
		active := 1
		if others > 0 {
			active += rapid.IntRange(1, others).Draw(t, "other queues")
		}
		return admit.Backlog{Budget: budget, Queue: queue, Target: queue + others, Active: active}
	})
}

func draws() *rapid.Generator[float64] { return rapid.Float64Range(0, math.Nextafter(1, 0)) }

// What holds for every refusal and every admission at a target.
func TestDecideQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, draw := backlogs().Draw(t, "backlog"), draws().Draw(t, "draw")
		got := admit.DecideQueue(b, draw)
		budget, target := float64(b.Budget), float64(b.Target)
		share := max(budget/float64(b.Active), 1)
		switch within := float64(b.Queue) <= share; {
		case b.Budget == 0 && got != nil:
			t.Fatal("refused without a budget")
		case b.Budget == 0:
		case got == nil && target > 1.25*budget:
			t.Fatal("admitted above 125 %")
		case got == nil && target > budget && !within:
			t.Fatal("admitted above the budget and above its share")
		case got != nil && within && target <= 1.25*budget:
			t.Fatal("refused within its share")
		case got != nil && target <= 0.7*budget:
			t.Fatal("refused without pressure")
		case got != nil && (got.Limit.Limit != int64(b.Budget) || got.Limit.Current != int64(b.Target-1)):
			t.Fatalf("refused with %+v", *got.Limit)
		case got != nil && got.Limit.Reason == admit.UpstreamQueue && target <= budget:
			t.Fatal("the target is not full")
		case got != nil && got.Limit.Reason == admit.QueueFairShare && within:
			t.Fatal("the queue has no more than its share")
		}
	})
}

// More of the queue, of the target, of queues or a lower draw never lets a job in that was refused.
func TestDecideQueueIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, draw := backlogs().Draw(t, "backlog"), draws().Draw(t, "draw")
		if admit.DecideQueue(b, draw) == nil {
			return
		}
		more := b
		more.Queue += rapid.IntRange(0, 1000).Draw(t, "more of the queue")
		more.Target += more.Queue - b.Queue + rapid.IntRange(0, 1000).Draw(t, "more of others")
		if float64(b.Queue) > float64(b.Budget)/float64(b.Active) {
			more.Active += rapid.IntRange(0, 10).Draw(t, "more queues")
		}
		if lower := rapid.Float64Range(0, draw).Draw(t, "lower draw"); admit.DecideQueue(more, lower) == nil {
			t.Fatalf("%+v is refused with %v, %+v is not with %v", b, draw, more, lower)
		}
		if p, q := b.Pressure(), more.Pressure(); !(0 <= p && p <= q && q <= 1) {
			t.Fatalf("the pressure goes from %v to %v", p, q)
		}
	})
}

// Tenants that take all they get, each job reserved and judged at once, leave room for every new one.
func TestGreedyTenantsLeaveRoomForNewOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const budget = 200
		queues, target := map[int]int{}, 0
		join := func(tenant int, draw float64) *fault.Error {
			queues[tenant]++
			target++
			refused := admit.DecideQueue(admit.Backlog{Budget: budget, Queue: queues[tenant], Target: target, Active: len(queues)}, draw)
			if refused != nil {
				target--
				if queues[tenant]--; queues[tenant] == 0 {
					delete(queues, tenant)
				}
			}
			return refused
		}
		greedy := rapid.IntRange(1, 20).Draw(t, "greedy tenants")
		draw := draws().Draw(t, "draw")
		for range 2 * budget {
			for tenant := range greedy {
				join(tenant, draw)
			}
		}
		if target > budget*5/4 {
			t.Fatalf("%d jobs", target)
		}
		for tenant := greedy; target < budget*5/4; tenant++ {
			if refused := join(tenant, 0); refused != nil {
				t.Fatalf("tenant %d: %v", tenant, refused)
			}
		}
		if refused := join(-1, 0.999); refused == nil || refused.Limit.Reason != admit.UpstreamQueue {
			t.Fatalf("one too many: %v", refused)
		}
	})
}

func TestDecideWebhooks(t *testing.T) {
	over := func(current int64) *fault.Limit {
		return &fault.Limit{Reason: "webhook_backlog", Limit: 1000, Current: current}
	}
	for name, c := range map[string]struct {
		deliveries admit.Deliveries
		draw       float64
		want       *fault.Limit // nil: admitted
	}{
		"off":               {admit.Deliveries{Limit: 0, Pending: 1 << 40, Others: true}, 0, nil},
		"alone":             {admit.Deliveries{Limit: 1000, Pending: 5000}, 0, nil},
		"nothing":           {admit.Deliveries{Limit: 1000, Others: true}, 0, nil},
		"at the limit":      {admit.Deliveries{Limit: 1000, Pending: 1000, Others: true}, 0, nil},
		"just over":         {admit.Deliveries{Limit: 1000, Pending: 1001, Others: true}, 0.0009, over(1001)},
		"just over, lucky":  {admit.Deliveries{Limit: 1000, Pending: 1001, Others: true}, 0.0011, nil},
		"half over":         {admit.Deliveries{Limit: 1000, Pending: 1500, Others: true}, 0.499, over(1500)},
		"half over, lucky":  {admit.Deliveries{Limit: 1000, Pending: 1500, Others: true}, 0.5, nil},
		"twice the limit":   {admit.Deliveries{Limit: 1000, Pending: 2000, Others: true}, 0.999, over(2000)},
		"more than that":    {admit.Deliveries{Limit: 1000, Pending: 1 << 40, Others: true}, 0.999, over(1 << 40)},
		"the limit is one":  {admit.Deliveries{Limit: 1, Pending: 1, Others: true}, 0, nil},
		"twice a low limit": {admit.Deliveries{Limit: 1, Pending: 2, Others: true}, 0.999, &fault.Limit{Reason: "webhook_backlog", Limit: 1, Current: 2}},
	} {
		t.Run(name, func(t *testing.T) { check(t, admit.DecideWebhooks(c.deliveries, c.draw), c.want) })
	}
}

func TestDecideWebhooksIsHonestAndMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := admit.Deliveries{
			Limit:   rapid.IntRange(0, 2000).Draw(t, "limit"),
			Pending: rapid.IntRange(0, 5000).Draw(t, "pending"),
			Others:  rapid.Bool().Draw(t, "others"),
		}
		draw := draws().Draw(t, "draw")
		got := admit.DecideWebhooks(d, draw)
		if got == nil {
			return
		}
		if got.Limit.Current <= got.Limit.Limit || !d.Others {
			t.Fatalf("refused with %+v", *got.Limit)
		}
		d.Pending += rapid.IntRange(0, 1000).Draw(t, "more")
		if admit.DecideWebhooks(d, rapid.Float64Range(0, draw).Draw(t, "lower draw")) == nil {
			t.Fatal("more is admitted")
		}
	})
}

func BenchmarkDecideQueue(b *testing.B) {
	for name, backlog := range map[string]admit.Backlog{
		"admitted": {Budget: 10_000, Queue: 6_000, Target: 8_500, Active: 10},
		"refused":  {Budget: 10_000, Queue: 6_000, Target: 10_500, Active: 10},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if refused := admit.DecideQueue(backlog, 0.9); (refused != nil) != (name == "refused") {
					b.Fatal(refused)
				}
			}
		})
	}
}
