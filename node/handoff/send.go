package handoff

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// outcome is what is known about a batch that was sent.
type outcome uint8

const (
	answered outcome = iota // the peer has said what became of each job
	untaken                 // nothing of it was taken
	unfit                   // nothing of it was taken, because of what it is: another one may be
	unknown                 // it may have been taken
)

// maxAnswer bounds the answer of a peer.
const maxAnswer = 64 << 10

// send posts one batch. The error says why there is no verdict.
func (g *Giver) send(ctx context.Context, peer Peer, work []store.Handed) ([]Verdict, outcome, error) {
	body, err := g.wire.batch(work)
	if err != nil {
		return nil, untaken, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.AnswerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, peer.Address+Path, bytes.NewReader(body))
	if err != nil {
		return nil, untaken, err
	}
	r.Header.Set("Content-Type", ContentType)
	if g.Sign != nil {
		g.Sign(r, peer.ID, body)
	}
	defer observed(g.Metrics.give, time.Now())
	got, err := g.Transport.RoundTrip(r)
	if err != nil {
		if g.Unsent != nil && g.Unsent(err) {
			return nil, untaken, err
		}
		return nil, unknown, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	switch {
	case got.StatusCode == http.StatusBadRequest || got.StatusCode == http.StatusRequestEntityTooLarge:
		return nil, unfit, fmt.Errorf("status %d: %.200s", got.StatusCode, text)
	case got.StatusCode/100 == 4 || got.StatusCode == http.StatusServiceUnavailable:
		return nil, untaken, fmt.Errorf("status %d: %.200s", got.StatusCode, text)
	case got.StatusCode != http.StatusOK:
		return nil, unknown, fmt.Errorf("status %d: %.200s", got.StatusCode, text)
	case err != nil:
		return nil, unknown, err
	}
	verdicts, err := g.wire.readAnswer(text, len(work))
	if err != nil {
		return nil, unknown, err
	}
	return verdicts, answered, nil
}
