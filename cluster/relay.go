package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// chunk is how much of an answer is held at a time, in bytes.
const chunk = 32 << 10

// relay hands a member's answer to the client as it comes, and returns its status. The client reads at
// its own pace: what it does not take is not fetched.
func (t *trip) relay(m Member, resp *answered) int {
	defer resp.end()
	t.f.Owners.Heard(m.ID)
	h := t.w.Header()
	copyHeader(h, resp.Header)
	if h.Get(OwnerHeader) == "" {
		h[OwnerHeader] = []string{m.ID}
	}
	if _, there := h["Content-Type"]; !there {
		h["Content-Type"] = nil // else this node's server would guess one
	}
	t.w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(t.w)
	err := t.copyBody(rc, resp)
	switch {
	case err == nil:
		t.f.metrics.relayed.Inc()
		return resp.StatusCode
	case errors.Is(err, errClient) || t.r.Context().Err() != nil:
		t.f.metrics.gone.Inc()
	default:
		t.f.metrics.broken.Inc()
		t.f.warn(t.r, "answer of a member cut short", m, err)
	}
	// The client must not take what it has for the whole. A server says so by ending the connection,
	// and it does that when it cannot write.
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Unix(1, 0))
	return resp.StatusCode
}

// errClient tells that the client takes no more.
var errClient = errors.New("the client is gone")

// copyBody returns an error if the client did not get all of an answer, or the answer has no end.
func (t *trip) copyBody(rc *http.ResponseController, resp *answered) error {
	buf, _ := t.f.chunks.Get().(*[]byte)
	defer t.f.chunks.Put(buf)
	live := resp.ContentLength < 0
	err := t.write(rc, nil, live) // the header, before there is anything to tell
	for err == nil {
		n, rerr := resp.Body.Read(*buf)
		if n > 0 {
			err = t.write(rc, (*buf)[:n], live)
		}
		if err == nil {
			err = rerr
		}
	}
	if err == io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		_ = rc.SetWriteDeadline(time.Now().Add(t.f.WriteTimeout)) // the server writes the end
		return nil
	}
	return err
}

// write hands the client a part of an answer, at once if the answer is live. A deadline stands only while
// something is written: over HTTP/2, one that passes ends the answer even if nothing is.
func (t *trip) write(rc *http.ResponseController, part []byte, live bool) error {
	_ = rc.SetWriteDeadline(time.Now().Add(t.f.WriteTimeout)) // what has no deadlines has no slow readers
	_, err := t.w.Write(part)
	if err == nil && live {
		err = rc.Flush()
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	_ = rc.SetWriteDeadline(time.Time{})
	return nil
}

// copyHeader puts the fields of an answer over those that are there, so that none is there twice. Those
// that belong to the connection stay behind (RFC 9110, 7.6.1).
func copyHeader(to, from http.Header) {
	for name, values := range from {
		if !ofConnection(name) && !listed(from, name) {
			to[name] = values
		}
	}
}

func ofConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", misplacedHeader, refusedHeader:
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// listed reports whether the field Connection names a field as one of the connection's.
func listed(h http.Header, name string) bool {
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}
