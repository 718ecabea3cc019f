package pace

import "math"

// Parts says into how many parts each limit is divided when others call the target too, of which this one has one.
// 0 counts as 1, which is all.
type Parts struct{ RPS, MaxConcurrent int }

// Own returns the settings of one part alone. A rate is divided to the letter, so that all parts together are no
// more than the whole. So are open dispatches, rounded down; but one part has at least one, for else what waits there would
// wait for ever. With fewer dispatches than parts all parts together are one for each.
func (s Settings) Own() Settings {
	if n := s.Parts.RPS; n > 1 && s.RPS > 0 {
		s.RPS = max(s.RPS/float64(n), math.SmallestNonzeroFloat64)
	}
	if n := s.Parts.MaxConcurrent; n > 1 {
		s.MaxConcurrent = max(s.MaxConcurrent/n, 1)
	}
	return s.Whole()
}

// Whole returns the settings as they are for all parts together.
func (s Settings) Whole() Settings {
	s.Parts = Parts{}
	return s
}
