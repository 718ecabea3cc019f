package admit

import "github.com/aquifer-fleet/aquifer/node/fault"

// Refuse counts a refusal by a rule about one tenant or one target, and completes it with the time to wait, if it has none:
// that is the same each time, because one that is refused for what it has itself is no sign that the node has trouble. It
// returns nil for nil.
func (g *Gate) Refuse(refused *fault.Error) error {
	if refused == nil {
		return nil
	}
	g.refusals.WithLabelValues(refused.Limit.Reason).Inc()
	if refused.RetryAfter <= 0 {
		refused.RetryAfter = g.config.RetryAfter
	}
	return refused
}
