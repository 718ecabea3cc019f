package pace

import "time"

// Settings is what a target may take, and by which rules. RPS and MaxConcurrent are positive; of the
// other fields the zero value is the default.
type Settings struct {
	RPS           float64 // dispatches a second
	MaxConcurrent int     // dispatches that are open at one time
	Parts         Parts   // RPS and MaxConcurrent are for all of them together

	// SlowStart has the target begin at SlowStartRPS when it starts from nothing, unless its own
	// Slow-Start header says otherwise.
	SlowStart bool
	// Fairness is what the flows of the target share equally.
	Fairness Fairness
	// HintTTL is how long a hint holds after it was last heard; 0 means DefaultHintTTL.
	HintTTL time.Duration
	// Idle is how long a target or a flow has had nothing to do when it counts as starting from nothing; 0 means
	// DefaultIdle. It is never less than two dispatches of its present pace are apart.
	Idle time.Duration
	// Breaker is how long the target's breaker stays open.
	Breaker Cooldown
}

const (
	// MinRPS is the slowest pace: a target is slowed down to it, never stopped.
	MinRPS = 0.25
	// SlowStartRPS is the pace of a slow start, unless less is configured.
	SlowStartRPS = 0.5
	// DefaultHintTTL is how long a hint holds.
	DefaultHintTTL = 30 * time.Second
	// DefaultIdle is how long nothing happens until what comes next is a start.
	DefaultIdle = 5 * time.Minute
)

// climb is by how much a rate grows with each success.
const climb = 1.05

// Fairness is what flows share in equal parts, or by their weights.
type Fairness uint8

const (
	// ByDispatch counts dispatches: each costs one unit, however long it takes.
	ByDispatch Fairness = iota
	// ByUse counts what a dispatch takes of the target's scarcer means: one unit of its rate, or the
	// time that it holds one of the MaxConcurrent slots, whichever is the larger part. So flows whose
	// calls take long get fewer of them, but only where slots are what is short.
	ByUse
)

// idle is Idle at a pace.
func (s *Settings) idle(rps float64) time.Duration { return max(s.Idle, seconds(2/rps)) }

// normal replaces values that are not positive: limits by the smallest ones, times by their defaults.
func (s Settings) normal() Settings {
	if !(s.RPS > 0) { // also NaN
		s.RPS = MinRPS
	}
	s.MaxConcurrent = max(s.MaxConcurrent, 1)
	if s.HintTTL <= 0 {
		s.HintTTL = DefaultHintTTL
	}
	if s.Idle <= 0 {
		s.Idle = DefaultIdle
	}
	s.Breaker = s.Breaker.normal()
	return s
}
