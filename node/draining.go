package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/egress"
)

// newDrain returns what hands the node over from one tenant to the next; nil for a node that is not.
func (n *Node) newDrain(p *parts) (*drain.Drain, error) {
	c := n.cfg.Drain
	if !c.Enabled {
		return nil, nil //nolint:nilnil // most nodes have none
	}
	cfg := drain.Config{
		Ledger:     p.store,
		Unfinished: p.backlog,
		Quiet:      n.cfg.Pacing.Idle(), Timer: seconds(c.TimerSeconds), BatchInterval: c.interval(), BatchMaxEvents: c.BatchMaxEvents,
		Sink: c.Sink, WebhookURL: c.WebhookURL, Send: poster{p.egress.WithoutRedirects()}.post,
		Logger: n.deps.Logger, Registerer: n.deps.Registry,
	}
	if c.toValkey() {
		cfg.Keys = p.region.Region
		if n.cfg.Remote.ResultEnabled {
			cfg.Results = p.region.keeper(p.store)
		}
	}
	return drain.New(cfg)
}

// toValkey says whether Valkey is the one who is told.
func (d DrainConfig) toValkey() bool { return d.Enabled && d.Sink == drain.SinkValkey }

// problems lists what breaks the rules of drain mode.
func (d DrainConfig) problems() []Problem {
	if !d.Enabled || d.Sink != drain.SinkWebhook || validURL(d.WebhookURL) {
		return nil
	}
	return []Problem{{Name: "AQUIFER_DRAIN_WEBHOOK_URL", Rule: urlRule, Value: shownURL(d.WebhookURL)}}
}

// drainHealth is what GET /health shows of the hand-over; nil for a node that has none.
func (p *parts) drainHealth() any {
	if p.drain == nil {
		return nil
	}
	return p.drain.View()
}

// flush tells the sink what is left to tell at the end, for no longer than limit. What it does not take now stays in the ledger.
func (n *Node) flush(p *parts, limit time.Duration) error {
	if p.drain == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.drain.Flush(ctx); err != nil {
		n.deps.Logger.Warn("the ledger is not told whole; the next process goes on with it", "error", err)
	}
	return nil
}

// poster sends JSON to another system.
type poster struct{ client *egress.Client }

// post sends a body and returns the status of the answer, of which the beginning must arrive: one that is cut off may be
// that of somebody on the way who did not hear the whole one.
func (x poster) post(ctx context.Context, url string, body []byte) (int, error) {
	resp, err := x.client.Do(ctx, egress.Request{
		Method: http.MethodPost, URL: url, Body: body, Header: fields(http.Header{"Content-Type": {"application/json"}}),
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, receiverBytes)); err != nil {
		return 0, fmt.Errorf("answer cut off: %w", err)
	}
	return resp.StatusCode, nil
}
