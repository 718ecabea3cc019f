package job

// ReasonPanic is why a job failed during whose execution this program broke.
const ReasonPanic = "internal panic"

// Dropped reports whether the node gave the job up by itself: its deadline passed while it waited,
// or this program broke. Such an end is told without an answer of the target.
func (s State) Dropped() bool {
	return s.Reason == string(DeadlineExceeded) || s.Reason == ReasonPanic
}
