package registrytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// call is what comes to /jobs and /proxy. Fields that are absent reach the node as they are printed: a
// body or a webhook_url as null.
type call struct {
	UserID     string            `json:"user_id"`
	Key        string            `json:"idempotent_key"`
	URL        string            `json:"url"`
	Method     string            `json:"method"`
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body"`
	WebhookURL *string           `json:"webhook_url"`
}

// waiting is a call for which there is no node yet.
type waiting struct {
	path   string
	body   []byte
	answer chan reply // has room for it
}

// reply is what Canalis relays of a node's answer.
type reply struct {
	status      int
	contentType string
	body        []byte
}

func (c *Canalis) serve(w http.ResponseWriter, r *http.Request) {
	var in call
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := json.Marshal(in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	address, queued := c.assign(in.UserID, &waiting{r.URL.Path, body, make(chan reply, 1)})
	if queued != nil {
		select {
		case a := <-queued.answer:
			a.write(w)
		case <-r.Context().Done():
		}
		return
	}
	resp, err := c.forward(r.Context(), address, r.URL.Path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	relay(w, resp)
}

// assign returns the address of a tenant's node. If no node is free, the call waits, and is returned.
func (c *Canalis) assign(tenant string, w *waiting) (string, *waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if address, ok := c.assignments[tenant]; ok {
		return address, nil
	}
	if len(c.free) > 0 {
		return c.give(tenant), nil
	}
	if len(c.pending[tenant]) == 0 {
		c.tenants = append(c.tenants, tenant)
	}
	c.pending[tenant] = append(c.pending[tenant], w)
	return "", w
}

// give gives a tenant the first free node, for good; c.mu is held.
func (c *Canalis) give(tenant string) string {
	address := c.free[0]
	c.free = c.free[1:]
	c.assigned[address] = true
	c.assignments[tenant] = address
	return address
}

// relieve gives a free node to the tenant that waits longest, and sends it the backlog; c.mu is held.
func (c *Canalis) relieve() {
	if len(c.tenants) == 0 || len(c.free) == 0 {
		return
	}
	tenant := c.tenants[0]
	c.tenants = c.tenants[1:]
	backlog := c.pending[tenant]
	delete(c.pending, tenant)
	address := c.give(tenant)
	c.backlog.Go(func() { c.send(address, backlog) })
}

// firstRPS is the pace of a backlog until the node names one.
const firstRPS = 2

// send sends a backlog to a node at the pace that its answers name.
func (c *Canalis) send(address string, backlog []*waiting) {
	rps := float64(firstRPS)
	for i, w := range backlog {
		if i > 0 {
			timer := time.NewTimer(time.Duration(float64(time.Second) / rps))
			<-timer.C
		}
		resp, err := c.forward(context.Background(), address, w.path, w.body)
		if err != nil {
			w.answer <- reply{http.StatusBadGateway, "text/plain", []byte(err.Error())}
			continue
		}
		rps = pace(resp.Header, rps)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			resp.StatusCode, body = http.StatusBadGateway, []byte(err.Error())
		}
		w.answer <- reply{resp.StatusCode, resp.Header.Get("Content-Type"), body}
	}
}

// pace is the rate that an answer names, or the one before.
func pace(h http.Header, before float64) float64 {
	for _, name := range []string{"X-Canalis-Rps", "X-Aqueduct-Rps", "X-Aquifer-Rps"} {
		if rps, err := strconv.ParseFloat(h.Get(name), 64); err == nil && rps > 0 {
			return rps
		}
	}
	return before
}

func (c *Canalis) forward(ctx context.Context, address, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.nodes.RoundTrip(req)
}

// relay writes a node's answer: status, content type and body. A stream goes on as it comes.
func relay(w http.ResponseWriter, resp *http.Response) {
	if contentType := resp.Header.Get("Content-Type"); !strings.HasPrefix(contentType, "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		reply{resp.StatusCode, contentType, body}.write(w)
		return
	}
	reply{resp.StatusCode, resp.Header.Get("Content-Type"), nil}.write(w)
	stream, buf := http.NewResponseController(w), make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil || stream.Flush() != nil || err != nil {
			return
		}
	}
}

func (a reply) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
