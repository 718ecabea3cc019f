package pace

import "time"

// learned is what a target's answers have said about its limits. It only ever lowers what is
// configured.
//
// A limit that is lowered holds at once. One that a header raises is climbed to, a step with each success: who has
// just been spared is not to be hit by all that has waited. A limit holds for a while after it was last heard; from then
// on it is climbed from to what is configured, where it is forgotten.
type learned struct {
	rate  limit // asked for by an Rps header
	load  limit // concluded from a load report
	slots limit
	start limit // a slow start that is going on

	slowStart    Hint[bool]
	accountQueue Hint[bool]
	maxBacklog   Hint[int]
	backlogUntil time.Time // when maxBacklog ends
}

// limit is one bound that was learned. The zero limit is none.
type limit struct {
	value  float64 // what holds; 0: no limit
	goal   float64 // what value climbs to while it holds, if it is higher
	said   float64 // as it was said
	source string
	heard  time.Time
	until  time.Time // when it begins to climb
	fades  bool      // when it climbs, that is because it was not heard
	steps  float64   // successes since it climbed by one
}

// of returns what is left of a configured value.
func (l *limit) of(configured float64) float64 {
	if l.value == 0 {
		return configured
	}
	return min(l.value, configured)
}

// top is what the limit climbs to at now; 0: it does not climb.
func (l *limit) top(configured float64, now time.Time) float64 {
	switch {
	case l.climbs(now):
		return configured
	case l.value < l.goal:
		return min(l.goal, configured)
	default:
		return 0
	}
}

// raise lets the limit climb up to top, and forgets it at the configured value.
func (l *limit) raise(to, top, configured float64) {
	l.value, l.steps = min(to, top), 0
	if l.value >= configured {
		*l = limit{}
	}
}

// follow is the limit that a hint makes of an earlier one. heard has when.
func (l limit) follow(heard limit, value float64, said Hint[float64]) limit {
	heard.value, heard.goal, heard.said, heard.source = value, value, said.Value, said.Header
	if l.value > 0 && l.value < value {
		heard.value, heard.steps = l.value, l.steps
	}
	return heard
}

// climbs tells that the limit holds as it was said no longer.
func (l *limit) climbs(now time.Time) bool { return l.value > 0 && !now.Before(l.until) }

// rps is what is left of the configured rate.
func (k *learned) rps(configured float64) float64 {
	return k.start.of(k.load.of(k.rate.of(configured)))
}

// hear takes in what an answer says. An Rps header says what the target wants, and so it replaces what was
// concluded from a report; a report lowers the rate beside a header, and does not replace it. A
// report without overload lets the rate climb at once.
func (k *learned) hear(s *Signal, now time.Time, ttl time.Duration) {
	rps, ok := s.rate()
	heard := limit{heard: now, until: now.Add(ttl), fades: true}
	switch {
	case s.RPS.Given():
		k.rate, k.load = k.lower().follow(heard, rps, s.RPS), limit{}
	case ok:
		k.load = limit{}.follow(heard, rps, s.Utilization) // each level of the load has its rate
	case s.Utilization.Given() && k.load.until.After(now):
		k.load.until, k.load.fades = now, false
	}
	if n := s.MaxConcurrent; n.Given() {
		value := float64(max(n.Value, 1))
		k.slots = k.slots.follow(heard, value, Hint[float64]{value, n.Header})
	}
	keep(&k.slowStart, s.SlowStart)
	keep(&k.accountQueue, s.AccountQueue)
	if s.MaxBacklog.Given() {
		k.maxBacklog, k.backlogUntil = s.MaxBacklog, now.Add(ttl)
	}
}

// backlog is the bound of unfinished work that holds, and when it ends. It does not climb as limits do: work that waits hits
// nobody, and while nothing may join there may be no success to climb with.
func (k *learned) backlog(now time.Time) (bound Hint[int], until time.Time) {
	if !now.Before(k.backlogUntil) {
		return bound, until
	}
	return k.maxBacklog, k.backlogUntil
}

// lower is the lower one of the two limits of the rate that come from the target.
func (k *learned) lower() limit {
	if k.load.value > 0 && (k.rate.value == 0 || k.load.value < k.rate.value) {
		return k.load
	}
	return k.rate
}

// keep remembers the latest value that was given.
func keep[T any](old *Hint[T], heard Hint[T]) {
	if heard.Given() {
		*old = heard
	}
}

// success lets what has held for long enough climb: a rate by a twentieth, the number of open
// dispatches by one for as many successes as there may be open.
func (k *learned) success(s Settings, now time.Time) {
	for _, l := range [...]*limit{&k.rate, &k.load, &k.start} {
		if top := l.top(s.RPS, now); top > 0 {
			l.raise(l.value*climb, top, s.RPS)
		}
	}
	l, configured := &k.slots, float64(s.MaxConcurrent)
	if top := l.top(configured, now); top > 0 {
		if l.steps++; l.steps >= l.value {
			l.raise(l.value+1, top, configured)
		}
	}
}

// begin starts slowly, if that is wanted.
func (k *learned) begin(s Settings, now time.Time) {
	slow := s.SlowStart
	if k.slowStart.Given() {
		slow = k.slowStart.Value
	}
	if slow && s.RPS > SlowStartRPS {
		k.start = limit{value: SlowStartRPS, said: SlowStartRPS, source: SourceSlowStart, heard: now, until: now}
	}
}
