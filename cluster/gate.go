package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// GateConfig is what a Gate is built from.
type GateConfig struct {
	Seal Seal
	// MaxBodyBytes is the largest body of a sealed request, all of which is held in memory while its
	// hash is compared; 0 for no limit.
	MaxBodyBytes int64
	Logger       *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

// gate lets in requests, from clients and from peers. See NewGate.
type gate struct {
	GateConfig
	next    http.Handler
	refused *prometheus.CounterVec
	lines   sparing
}

// NewGate returns a handler that finds out which requests come from other nodes and hands all to next.
// Behind it, no request has a header that only a node may write, and HopOf knows what they said. If
// there is a secret, they count only under a seal. A request under a seal that is wrong is
// answered with 401: whoever sends one takes itself for a peer, and must not be served as a client,
// since that could send the request round in circles.
func NewGate(next http.Handler, c GateConfig) http.Handler {
	return &gate{GateConfig: c, next: next, refused: promauto.With(c.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_peer_refused_total",
		Help: "Requests under a seal that was wrong, by what was wrong: broken, old, not_for_us, body.",
	}, []string{"reason"})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !claims(r.Header):
	case !g.Seal.Enforced():
		hop, ok := hopOf(r.Header)
		r = bare(r, hop, ok)
	case r.Header.Get(signatureHeader) == "":
		r = bare(r, Hop{}, false)
	default:
		var err error
		if r, err = g.open(w, r); err != nil {
			g.refuse(w, r, err)
			return
		}
	}
	g.next.ServeHTTP(w, r)
}

// open checks a seal, and returns the request as it is behind the gate.
func (g *gate) open(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	if err := g.Seal.checkHead(r); err != nil {
		return r, err
	}
	body, err := g.read(w, r)
	if err == nil {
		err = checkBody(r, body)
	}
	if err != nil {
		return r, err
	}
	hop, ok := hopOf(r.Header)
	hop.Sealed = true
	r = bare(r, hop, ok)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, nil
}

// peerBodyTimeout bounds how long the body of a peer's request may take.
const peerBodyTimeout = time.Minute

func (g *gate) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(peerBodyTimeout)) // what has no deadlines has no slow peers
	src := r.Body
	if g.MaxBodyBytes > 0 {
		src = http.MaxBytesReader(w, src, g.MaxBodyBytes)
	}
	body, err := io.ReadAll(src)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return body, err
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var large *http.MaxBytesError
	reason := "broken"
	switch {
	case errors.As(err, &large):
		w.Header().Set("Connection", "close")
		answer(w, http.StatusRequestEntityTooLarge, refusal{Error: "the body is too large", LimitBytes: g.MaxBodyBytes})
		return
	case errors.Is(err, ErrSealOld):
		reason = "old"
	case errors.Is(err, ErrSealNotForUs):
		reason = notForUs
	case errors.Is(err, ErrSealBody):
		reason = "body"
	case !errors.Is(err, ErrSealBroken):
		answer(w, http.StatusBadRequest, refusal{Error: "the body could not be read"})
		return
	}
	g.refused.WithLabelValues(reason).Inc()
	if g.lines.may(time.Minute) { // a peer that nobody believes asks each second whether that is so yet
		g.Logger.WarnContext(r.Context(), "peer refused", "remote", r.RemoteAddr, "claims", fmt.Sprintf("%.64s", r.Header.Get(fromHeader)), "error", err)
	}
	w.Header().Set(refusedHeader, reason)
	answer(w, http.StatusUnauthorized, refusal{Error: err.Error()})
}
