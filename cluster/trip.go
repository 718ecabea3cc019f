package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// trip is one request on its way to the node that answers it. The goroutine of the request owns it.
type trip struct {
	f    *Forwarder
	w    http.ResponseWriter
	r    *http.Request
	call Call
	// tried are the ids that could not take the request, or did not have what was asked for.
	tried []string
	// redirected: a member that was asked has named another one.
	redirected bool
	// doubted: what this node remembers of the owner has been looked up again.
	doubted bool
}

// errDraining is why a member that was reached is passed over.
var errDraining = errors.New("the member drains")

// toOwner tries one member, and returns the status of the answer that the client got, or 0 if another
// member is to be tried.
func (t *trip) toOwner(m Member) int {
	resp, err := t.ask(m, true)
	if err != nil {
		return t.failed(m, err)
	}
	if resp.StatusCode == http.StatusServiceUnavailable && drains(resp.Header) {
		resp.discard()
		return t.next(m, errDraining)
	}
	// A node that has just come answers for nobody yet. All go to the next one until it does, so it is not passed over
	// beyond this request: then some would take it for an owner before others.
	if resp.notTaken(http.StatusServiceUnavailable, unsettledHeader) != "" {
		resp.discard()
		t.tried = append(t.tried, m.ID)
		return 0
	}
	if named := resp.notTaken(http.StatusServiceUnavailable, misplacedHeader); named != "" {
		resp.discard()
		return t.redirect(m, named)
	}
	return t.relay(m, resp)
}

// toHolder asks one member, and returns the status of the answer that the client got, or 0 if another
// member is to be asked.
func (t *trip) toHolder(m Member) int {
	resp, err := t.ask(m, false)
	if err != nil {
		if safe(t.r.Method) && errors.Is(err, errUnanswered) {
			t.tried = append(t.tried, m.ID)
			return 0
		}
		return t.failed(m, err)
	}
	if resp.StatusCode == http.StatusNotFound {
		resp.discard()
		return 0
	}
	return t.relay(m, resp)
}

// safe reports whether it does no harm to ask several nodes for the same.
func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// ask sends the request to a member and returns its answer, which is to be closed.
func (t *trip) ask(m Member, decide bool) (*answered, error) {
	done, err := t.f.waiting.enter(m.ID, int64(len(t.call.Body)), t.f.MaxWaiting, t.f.MaxWaitingBytes)
	if err != nil {
		return nil, err
	}
	defer done()
	hop := Hop{From: t.f.self(), Decide: decide}
	if decide {
		hop.Tried = t.unusable()
	}
	resp, err := t.send(m, hop)
	// A connection that ends without an answer may be an old one that its other end closed just when
	// it was used. The same member knows whether it has taken the request already, by its key.
	if decide && errors.Is(err, errBroken) {
		if resp, err = t.send(m, hop); errors.Is(err, errUnsent) {
			err = fmt.Errorf("%w, nor a second time: %v", errBroken, err) //nolint:errorlint // what was sent once is not unsent
		}
	}
	return resp, err
}

func (t *trip) send(m Member, hop Hop) (*answered, error) {
	start := time.Now()
	defer func() { t.f.metrics.seconds.Observe(time.Since(start).Seconds()) }()
	return t.f.send(t.r, m, t.call, hop)
}

// unusable are the members without which the member that is asked is to decide who is the owner. This node is
// one of them when it drains, which others may not have heard.
func (t *trip) unusable() []string {
	list := slices.Concat(t.f.Owners.Pruned(), t.tried)
	if self := t.f.Owners.fields.now().roster.Self; self.State != Active {
		list = append(list, self.ID)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// failed ends the trip or goes on to another member, as the error allows.
func (t *trip) failed(m Member, err error) int {
	switch {
	case t.r.Context().Err() != nil:
		t.f.metrics.gone.Inc()
		return statusGone // nobody is there to be told
	case errors.Is(err, errUnsent):
		t.f.metrics.unreachable.Inc()
		return t.next(m, err)
	case errors.Is(err, errFull):
		t.f.metrics.full.Inc()
		return answerLater(t.w, http.StatusServiceUnavailable, refusal{Error: "too many requests wait for the owner of this tenant", OwnerID: m.ID})
	case errors.Is(err, errDistrust):
		t.f.metrics.distrusted.Inc()
		t.f.warn(t.r, "member refuses this node's signature", m, err)
		if t.f.believedBesides(t.r.Context(), m) {
			return t.next(m, err)
		}
		return answerLater(t.w, http.StatusBadGateway, refusal{Error: "the owner of this tenant refuses this node", TriedOwnerIDs: []string{m.ID}})
	default:
		t.f.metrics.unanswered.Inc()
		t.f.warn(t.r, "member does not answer", m, err)
		return answerLater(t.w, http.StatusGatewayTimeout, refusal{
			Error: "the owner of this tenant did not answer; it may have taken the request", OwnerID: m.ID,
		})
	}
}

// statusGone is what counts as the status of a request whose client has left.
const statusGone = 499

// next goes on to another member because m has certainly not taken the request.
func (t *trip) next(m Member, why error) int {
	t.tried = append(t.tried, m.ID)
	t.f.prune(t.r.Context(), m, t.call.Key, why)
	return 0
}

// redirect goes to the member that m names as the owner, once. If that is this node, or one that this node does not know,
// what it remembers may be old: it looks again, once. One that has left is passed over, and m is asked anew. If the two
// views still differ then, the client has to come back later.
func (t *trip) redirect(m Member, named string) int {
	t.f.metrics.redirected.Inc()
	among := t.f.Owners.fields.now()
	switch to, known := among.member(named); {
	case slices.Contains(t.tried, named):
	case known && named != t.f.self() && !t.redirected:
		t.redirected = true
		t.forget()
		return t.toOwner(to)
	case (!known || named == t.f.self()) && t.doubts():
		return 0
	case among.hasLeft(named, t.f.Owners.fields.grace): // which m has not heard
		t.tried = append(t.tried, named)
		return 0
	}
	t.w.Header().Del(OwnerHeader)
	return answerLater(t.w, http.StatusServiceUnavailable, refusal{
		Error: fmt.Sprintf("the nodes do not agree on who owns this tenant: %s names %.128q", m.ID, named),
	})
}

// doubts has the owner be looked for anew, and reports whether that is of use: the first time, if one was remembered.
func (t *trip) doubts() bool {
	if t.doubted {
		return false
	}
	t.doubted = t.forget()
	return t.doubted
}

// forget has the next request of this key look for its owner anew, and reports whether one can have been remembered.
func (t *trip) forget() bool {
	placement, remembers := t.f.Owners.placement.(doubter)
	if remembers {
		placement.Doubt(t.call.Key)
	}
	return remembers
}

// doubter is a Placement that remembers owners.
type doubter interface {
	// Doubt has the owner of key be asked for before it is named again.
	Doubt(key string)
}

func (t *trip) nobody() int {
	return t.unreached("no node that may take this could be reached")
}

// unreached is the answer when those that may know better are away.
func (t *trip) unreached(why string) int {
	t.f.metrics.nobody.Inc()
	return answerLater(t.w, http.StatusBadGateway, refusal{Error: why, TriedOwnerIDs: t.tried})
}

// drains reports whether a 503 is that of a node that drains.
func drains(h http.Header) bool {
	return h.Get("X-Aqueduct-Node-State") == "draining" || h.Get("X-Aquifer-Node-State") == "draining"
}
