package cluster

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Headers that one node writes for another. From anyone else they are ignored, if there is a secret.
const (
	// forwardedHeader is "true" on a request that has made its one hop.
	forwardedHeader = "X-Aquifer-Cluster-Forwarded"
	// fromHeader is the id of the node that forwarded.
	fromHeader = "X-Aquifer-Peer"
	// triedHeader lists the ids that could not take the request, in the view of the node that
	// forwarded; "-" if there are none. It comes only with a request whose taker is to make sure
	// that it is the owner.
	triedHeader = "X-Aquifer-Cluster-Tried"
	// The others belong to the seal.
	toHeader        = "X-Aquifer-Peer-To"
	timeHeader      = "X-Aquifer-Peer-Time"
	bodyHeader      = "X-Aquifer-Peer-Body"
	signatureHeader = "X-Aquifer-Peer-Signature"
)

// Headers of answers.
const (
	// OwnerHeader is the id of the node that answered as the owner.
	OwnerHeader = "X-Aquifer-Cluster-Owner"
	// misplacedHeader is the id of the owner in the view of a node that did not take a request.
	misplacedHeader = "X-Aquifer-Cluster-Misplaced"
	// unsettledHeader is "true" when a node did not take a request because it does not know its cluster yet.
	unsettledHeader = "X-Aquifer-Cluster-Unsettled"
	// refusedHeader says that a node did not believe a seal, and why.
	refusedHeader = "X-Aquifer-Peer-Refused"
)

// notForUs is the value of refusedHeader where a seal is right but for whom it names.
const notForUs = "not_for_us"

func internalHeaders() [7]string {
	return [...]string{forwardedHeader, fromHeader, triedHeader, toHeader, timeHeader, bodyHeader, signatureHeader}
}

// claims reports whether a request has any header that only a node may write.
func claims(h http.Header) bool {
	for _, name := range internalHeaders() {
		if _, there := h[name]; there {
			return true
		}
	}
	return false
}

// Hop is what is known of a request that came from another node.
type Hop struct {
	// From is the id of that node; empty if it does not tell.
	From string
	// Sealed: From is proven. Without a secret nothing is.
	Sealed bool
	// Forwarded: the request has made its hop, and is this node's to answer.
	Forwarded bool
	// Tried are the members that could not take the request; Decide tells that the other node asks
	// this one to make sure that it is the owner.
	Tried  []string
	Decide bool
}

type hopKey struct{}

// HopOf tells whether a request came from another node, and how. Only what came through a Gate has a
// hop.
func HopOf(r *http.Request) (Hop, bool) {
	h, ok := r.Context().Value(hopKey{}).(Hop)
	return h, ok
}

// Forwarded reports whether ctx is that of a request that another node has brought here.
func Forwarded(ctx context.Context) bool {
	h, _ := ctx.Value(hopKey{}).(Hop)
	return h.Forwarded
}

// hopOf reads the headers of a request whose sender is believed.
func hopOf(h http.Header) (Hop, bool) {
	hop := Hop{From: h.Get(fromHeader), Forwarded: h.Get(forwardedHeader) == "true"}
	if tried := h.Get(triedHeader); tried != "" && hop.Forwarded {
		hop.Decide = true
		hop.Tried = slices.DeleteFunc(strings.Split(tried, ","), func(id string) bool { return CheckID(id) != nil || id == "-" })
	}
	return hop, hop.Forwarded || hop.From != ""
}

// bare returns the request without the headers that only a node may write, and with its hop.
func bare(r *http.Request, hop Hop, isHop bool) *http.Request {
	ctx := r.Context()
	if isHop {
		ctx = context.WithValue(ctx, hopKey{}, hop)
	}
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	for _, name := range internalHeaders() {
		delete(r.Header, name)
	}
	return r
}

func (h Hop) writeTo(to http.Header) {
	to[forwardedHeader] = []string{"true"}
	to[fromHeader] = []string{h.From}
	if h.Decide {
		tried := "-"
		if len(h.Tried) > 0 {
			tried = strings.Join(h.Tried, ",")
		}
		to[triedHeader] = []string{tried}
	}
}
