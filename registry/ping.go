package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Sealer proves to a control plane that a ping is this node's, and hides it from others.
type Sealer interface {
	// Introduce makes the two sides known to each other, if they are not. It may call the control
	// plane, within ctx. What it cannot do shows in what Seal returns.
	Introduce(ctx context.Context, to *url.URL)
	// Seal returns what goes onto the wire in place of a body, and the headers to go with it. It is
	// asked anew for each attempt, and calls nobody. An error fails the attempt.
	Seal(to *url.URL, body []byte) (http.Header, []byte, error)
}

// introduction bounds Sealer.Introduce: two calls of 5 s.
const introduction = 10 * time.Second

func (r *Registration) introduce(ctx context.Context) {
	if r.Sealer == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, introduction)
	defer cancel()
	r.Sealer.Introduce(ctx, r.to)
}

// message is the body of a ping.
type message struct {
	Port       string `json:"port"`
	State      State  `json:"state"`
	ReportedAt string `json:"reported_at"` // RFC 3339, UTC, whole seconds
}

// ping makes one attempt to tell the control plane a state. Any answer but a whole one of 2xx is an error.
func (r *Registration) ping(ctx context.Context, state State) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptLimit(r.Interval), errTimeout)
	defer cancel()
	req, err := r.request(ctx, state)
	if err != nil {
		return err
	}
	resp, err := r.Transport.RoundTrip(req)
	if err != nil {
		return because(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	return because(ctx, judge(resp))
}

var errTimeout = errors.New("no answer in time")

// because names the reason when an error comes from the end of ctx.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *Registration) request(ctx context.Context, state State) (*http.Request, error) {
	body, err := json.Marshal(message{r.Port, state, r.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if r.Sealer != nil {
		if header, body, err = r.Sealer.Seal(r.to, body); err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "aquifer")
	for name, values := range header {
		req.Header[name] = values
	}
	return req, nil
}

// maxAnswer is how much of an answer is read, so that its connection can be kept; more need not arrive.
const maxAnswer = 64 << 10

// judge reads an answer.
func judge(resp *http.Response) error {
	_, err := io.CopyN(io.Discard, resp.Body, maxAnswer)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("answer cut off: %w", err)
	}
	return nil
}
