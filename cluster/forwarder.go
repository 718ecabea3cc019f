package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ForwarderConfig is what a Forwarder is built from. Fields without a stated zero are required.
type ForwarderConfig struct {
	Owners *Owners
	// Transport sends. It must not follow redirects, and must not send a POST again that the other
	// side may have read; http.Transport does neither.
	Transport http.RoundTripper
	// Unsent tells from an error of Transport that the other node has certainly not read the request.
	// With nil, net/http/httptrace tells, which http.Transport serves.
	Unsent func(error) bool
	Seal   Seal

	// ConnectTimeout bounds the wait for a connection; 0 means 5 s. With Unsent the transport is to bound it.
	ConnectTimeout time.Duration
	// AnswerTimeout bounds the wait from there to the header of the answer, with Unsent from the start; 0 means 10 s. With a
	// lower value a node that hangs is felt for a shorter time, and a node that is slow for a
	// moment answers in vain.
	AnswerTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of an answer; 0 means 30 s.
	WriteTimeout time.Duration
	// MaxWaiting is how many requests may wait for an answer of one member; 0 means 2048. MaxWaitingBytes
	// bounds their bodies, for all members; 0 means 64 MiB. What is beyond is refused, so that a
	// node that hangs does not fill the others.
	MaxWaiting      int
	MaxWaitingBytes int64

	Logger *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Forwarder brings requests to the nodes that are to answer them. It is safe for concurrent use.
//
// A request makes one hop: a node that gets a forwarded one answers it, or says who should. It goes to
// another node only if the first one has certainly not taken it: it could not be reached, it drains, it
// does not know its cluster yet, or it says that it is not the owner. A request that the first one may have read is not given to a
// second one, since both might do the work.
type Forwarder struct {
	ForwarderConfig
	waiting waiting
	beliefs beliefs
	lines   sparing   // of members that fail
	chunks  sync.Pool // of *[]byte
	metrics *forwarderMetrics
}

// NewForwarder returns a forwarder. It starts nothing.
func NewForwarder(c ForwarderConfig) *Forwarder {
	orElse(&c.ConnectTimeout, 5*time.Second)
	orElse(&c.AnswerTimeout, 10*time.Second)
	orElse(&c.WriteTimeout, 30*time.Second)
	orElse(&c.MaxWaiting, 2048)
	orElse(&c.MaxWaitingBytes, 64<<20)
	f := &Forwarder{
		ForwarderConfig: c,
		waiting:         waiting{requests: make(map[string]int)},
		chunks:          sync.Pool{New: func() any { b := make([]byte, chunk); return &b }},
	}
	f.metrics = newForwarderMetrics(c.Registerer, c.Owners, &f.waiting)
	return f
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Call is what goes to the other node, beside the method and the path of the request that came in.
type Call struct {
	// Key is the routing key; an empty one is answered here.
	Key string
	// Body is the whole body, which is sent again if another node has to be asked.
	Body []byte
	// Header is sent as it is; nil for none. The client's own header is not sent.
	Header http.Header
	// Since is when what is asked for came into being, if it can have been handed from node to node; else zero.
	Since time.Time
}

// ToOwner brings a request to the owner of its key, and the owner's answer to the client. It returns the
// status of the answer, or 0 if this node is to answer: because it is the owner, because the request
// has made its hop, or because all drain, which the node itself says best. Then nothing is written yet,
// but the header that names the owner. Errors become answers: 502 if nobody could take the request,
// with tried_owner_ids; 503 if the node does not know its cluster yet, or too much waits; 504 if the
// owner may have taken it, with owner_id. All of them tell when to try again.
func (f *Forwarder) ToOwner(w http.ResponseWriter, r *http.Request, c Call) int {
	if hop, _ := HopOf(r); hop.Forwarded {
		return f.arrived(w, r, c.Key, hop)
	}
	t := &trip{f: f, w: w, r: r, call: c}
	for {
		owner, err := f.Owners.Of(r.Context(), c.Key, t.tried)
		switch {
		case errors.Is(err, ErrNobody) && len(t.tried) == 0:
			return 0
		case errors.Is(err, ErrNobody):
			return t.nobody()
		case err != nil:
			f.metrics.unsettled.Inc()
			return answerLater(w, http.StatusServiceUnavailable, refusal{Error: err.Error()})
		case owner.Local:
			f.own(w, owner.ID)
			return 0
		}
		if status := t.toOwner(owner.Member); status != 0 {
			return status
		}
	}
}

// arrived decides about a request that was forwarded to this node: 0 if it is to be answered here.
func (f *Forwarder) arrived(w http.ResponseWriter, r *http.Request, key string, hop Hop) int {
	self := f.Owners.fields.now().roster.Self
	if hop.From != "" && hop.From != self.ID && !slices.Contains(hop.Tried, hop.From) {
		f.Owners.Heard(hop.From)
	}
	if !hop.Decide || self.State != Active {
		f.own(w, self.ID)
		return 0
	}
	// It may have asked this one only because there is no other.
	tried := slices.DeleteFunc(slices.Clone(hop.Tried), func(id string) bool { return id == self.ID })
	owner, err := f.Owners.Of(r.Context(), key, tried)
	switch {
	case errors.Is(err, ErrNobody) || err == nil && owner.Local:
		f.own(w, self.ID)
		return 0
	case err != nil:
		f.metrics.unsettled.Inc()
		w.Header().Set(unsettledHeader, "true")
		return answerLater(w, http.StatusServiceUnavailable, refusal{Error: err.Error()})
	}
	f.metrics.misplaced.Inc()
	w.Header().Set(misplacedHeader, owner.ID)
	return answerLater(w, http.StatusServiceUnavailable, refusal{Error: "another node owns this tenant", OwnerID: owner.ID})
}

func (f *Forwarder) own(w http.ResponseWriter, id string) { w.Header()[OwnerHeader] = []string{id} }

// ToHolder asks the other nodes for something that this node does not have, such as a job by its id. The
// member for which likely is true is asked first; nil means that none is likelier. It returns the status of the
// first answer other than 404, which is relayed, or 0 if no node has it, or the request has made
// its hop; nothing is written then. If a node could not be asked and no other has it, the answer is 502
// and names that node: it may have it. So is it if the likely one was a member and is away, or one that has died since c.Since, or has
// left just now and may be handing over what it has.
func (f *Forwarder) ToHolder(w http.ResponseWriter, r *http.Request, c Call, likely func(id string) bool) int {
	if hop, _ := HopOf(r); hop.Forwarded {
		return 0
	}
	among := f.Owners.fields.now()
	if why := f.Owners.unsettled(among.roster); why != nil {
		f.metrics.unsettled.Inc()
		return answerLater(w, http.StatusServiceUnavailable, refusal{Error: (&UnsettledError{why}).Error()})
	}
	t := &trip{f: f, w: w, r: r, call: c}
	for _, m := range f.holders(among, likely) {
		if status := t.toHolder(m); status != 0 {
			return status
		}
	}
	if likely != nil {
		t.tried = append(t.tried, among.goneWith(c.Since, f.Owners.fields.grace, likely)...)
	}
	if len(t.tried) > 0 {
		return t.unreached("a node that may have this could not be reached")
	}
	return 0
}

// holders are the other members, the likely ones first and those that could not be reached last.
func (f *Forwarder) holders(among *field, likely func(id string) bool) []Member {
	out := f.Owners.pruned.ids(among)
	place := func(m Member) int {
		switch {
		case slices.Contains(out, m.ID):
			return 2
		case likely != nil && likely(m.ID):
			return 0
		default:
			return 1
		}
	}
	list := slices.DeleteFunc(slices.Clone(among.members), func(m Member) bool { return m.ID == f.self() || m.State == Offline })
	slices.SortStableFunc(list, func(a, b Member) int { return place(a) - place(b) })
	return list
}

// warn tells of a member that fails, without going on about it.
func (f *Forwarder) warn(r *http.Request, message string, m Member, err error) {
	if f.lines.may(time.Second) {
		f.Logger.WarnContext(r.Context(), message, "member", m.ID, "error", err) //nolint:sloglint // the callers' messages are constant
	}
}

// prune passes over a member from now on.
func (f *Forwarder) prune(ctx context.Context, m Member, key string, why error) {
	if !f.Owners.Prune(ctx, m.ID, key) {
		return
	}
	level := slog.LevelWarn
	if errors.Is(why, errDraining) {
		level = slog.LevelInfo
	}
	f.Logger.Log(ctx, level, "member passed over", "member", m.ID, "address", m.Address, "error", why)
}
