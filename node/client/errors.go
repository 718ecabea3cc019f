package client

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// Error is an answer that is not what was asked for.
type Error struct {
	Status int // of the answer
	// Fault is the kind that the status stands for, the node's words, the limit that was hit, and how
	// long to wait, zero if the answer did not say.
	Fault *fault.Error

	asked string
}

// Error says what was asked and how it was answered.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: status %d: %v", e.asked, e.Status, e.Fault)
}

// Unwrap returns the fault, so that fault.Is works on the error.
func (e *Error) Unwrap() error { return e.Fault }

// refused reads an answer of a status that was not wanted. Its body need not come from a node.
func (c *Client) refused(q request, resp *http.Response) error {
	f := &fault.Error{Kind: kindOf(resp), Detail: http.StatusText(resp.StatusCode), RetryAfter: retryAfter(resp.Header)}
	var body struct {
		Error       string `json:"error"`
		LimitReason string `json:"limit_reason"`
		Limit       int64  `json:"limit"`
		Current     int64  `json:"current"`
		LimitBytes  int64  `json:"limit_bytes"`
	}
	raw, err := c.read(resp.Body)
	if err == nil && json.Unmarshal(raw, &body) == nil && body.Error != "" {
		f.Detail = body.Error
		switch {
		case body.LimitReason != "":
			f.Limit = &fault.Limit{Reason: body.LimitReason, Limit: body.Limit, Current: body.Current}
		case body.LimitBytes != 0:
			f.Limit = &fault.Limit{Reason: "body_bytes", Limit: body.LimitBytes}
		}
	}
	return &Error{Status: resp.StatusCode, Fault: f, asked: q.method + " " + q.path}
}

// kindOf is the kind of fault that an answer stands for, also one of a gateway in between.
func kindOf(resp *http.Response) fault.Kind {
	switch code := resp.StatusCode; {
	case code == http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case code == http.StatusNotFound:
		return fault.NotFound
	case code == http.StatusConflict:
		return fault.Conflict
	case code == http.StatusUnprocessableEntity:
		return fault.Mismatch
	case code == http.StatusTooManyRequests:
		return fault.Overloaded
	case code == http.StatusServiceUnavailable && header(resp.Header, "Node-State") == "draining":
		return fault.Draining
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return fault.Unavailable
	case code/100 == 4:
		return fault.Invalid
	default:
		return fault.Internal
	}
}

// retryAfter reads whole seconds or a date.
func retryAfter(h http.Header) time.Duration {
	raw := h.Get("Retry-After")
	if n, err := strconv.ParseUint(raw, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(raw); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
