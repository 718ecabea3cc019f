package pace

import "time"

// Limits are the bounds of a target as they stand, for a person to read.
type Limits struct {
	RPS           Level
	MaxConcurrent Level
	// SlowStart is how the target is met when it next starts from nothing.
	SlowStart bool
	// AccountQueue is the latest that the target said; it does not age.
	AccountQueue Hint[bool]
	// MaxBacklog is the latest that the target said, unless that is longer ago than Settings.HintTTL.
	MaxBacklog Hint[int]
}

// Level is one bound.
type Level struct {
	Value      float64 // what holds now
	Configured float64
	// Source is where Value comes from: SourceConfigured, SourceSlowStart or the name of a header.
	Source string
	// Said is what the source said: the value itself, or of a load report the fill of the cache.
	Said float64
	// HeardAt is when it was last said; zero for what is configured.
	HeardAt time.Time
	// Stale tells that it was not heard for Settings.HintTTL, so that Value climbs with each success.
	Stale bool
}

// What a Level comes from if not from a header.
const (
	SourceConfigured = "configured"
	SourceSlowStart  = "slow start"
)

// Limits returns the bounds as they stand at now.
func (b *Budget) Limits(now time.Time) Limits {
	k := &b.known
	l := Limits{
		RPS:           level(b.set.RPS, now, &k.rate, &k.load, &k.start),
		MaxConcurrent: level(float64(b.set.MaxConcurrent), now, &k.slots),
		SlowStart:     b.set.SlowStart,
		AccountQueue:  k.accountQueue,
	}
	l.MaxBacklog, _ = k.backlog(now)
	if k.slowStart.Given() {
		l.SlowStart = k.slowStart.Value
	}
	return l
}

// AccountQueue is whether the target wants a queue for each tenant, if it has said so.
func (b *Budget) AccountQueue() Hint[bool] { return b.known.accountQueue }

// MaxBacklog is how much unfinished work for it the target wants to be kept here, if it has said so within Settings.HintTTL,
// and until when that holds.
func (b *Budget) MaxBacklog(now time.Time) (bound Hint[int], until time.Time) {
	return b.known.backlog(now)
}

// level shows the lowest of several limits.
func level(configured float64, now time.Time, limits ...*limit) Level {
	shown := Level{Value: configured, Configured: configured, Source: SourceConfigured, Said: configured}
	for _, l := range limits {
		if l.of(configured) < shown.Value {
			stale := l.climbs(now) && l.fades
			shown = Level{l.value, configured, l.source, l.said, l.heard, stale}
		}
	}
	return shown
}
