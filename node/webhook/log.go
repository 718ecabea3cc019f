package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// log tells how an attempt ended that took so long: on level Warn if the delivery is given up, else on
// level Debug. A line is made only if somebody reads it, since writing down what it tells takes memory.
func (d *Deliverer) log(ctx context.Context, e job.Entry, next job.Webhook, took time.Duration) {
	givenUp := next.State == job.WebhookFailed || next.State == job.WebhookRejected
	if !givenUp && !d.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("job_id", e.ID.String()), slog.String("target", e.Lane.Host()), slog.String("state", string(next.State)),
		slog.Int("attempt", next.Attempts), slog.Int("status", next.LastStatus), slog.String("reason", string(next.LastError)),
		slog.Int64("duration_ms", took.Milliseconds()),
	}
	switch {
	case givenUp:
		d.Logger.LogAttrs(ctx, slog.LevelWarn, "webhook delivery given up", attrs...)
	case next.State == job.WebhookDelivered:
		d.Logger.LogAttrs(ctx, slog.LevelDebug, "webhook delivered", attrs...)
	default:
		d.Logger.LogAttrs(ctx, slog.LevelDebug, "webhook failed", attrs...)
	}
}
