package dispatch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Load is what a target is told about the work that waits for it.
type Load struct {
	TotalJobs       int64   // unfinished jobs on this node
	QueueDepth      int64   // of these, the ones that wait their turn
	FlowRate        float64 // calls per second that the target gets at the moment
	ActiveQueues    int     // tenants with work for the target
	UpstreamBacklog int     // unfinished jobs for the target
}

// Identity is what a target is told about an attempt, by which it can tell a second one from the
// first. Of a webhook delivery only NodeID is set.
type Identity struct {
	NodeID  string
	JobID   string
	Attempt int    // from 1
	KeyHash string // of the idempotency key, as job.Key.WireHash
}

// Headers returns the headers by which the node introduces itself and its load, under both prefixes.
// What is not set in id is left out.
func Headers(id Identity, l Load) []job.Header {
	fields := 12
	if id.JobID != "" {
		fields = 18
	}
	h := make([]job.Header, 0, fields)
	add := func(preferred, alias, value string) {
		h = append(h, job.Header{Name: preferred, Value: value}, job.Header{Name: alias, Value: value})
	}
	n := numbers(l, id.Attempt)
	add("X-Aqueduct-Total-Jobs", "X-Aquifer-Total-Jobs", n[0])
	add("X-Aqueduct-Queue-Depth", "X-Aquifer-Queue-Depth", n[1])
	add("X-Aqueduct-Flow-Rate", "X-Aquifer-Flow-Rate", n[2])
	add("X-Aqueduct-Active-Queues", "X-Aquifer-Active-Queues", n[3])
	add("X-Aqueduct-Upstream-Backlog", "X-Aquifer-Upstream-Backlog", n[4])
	if id.NodeID != "" {
		add("X-Aqueduct-Node-Id", "X-Aquifer-Node-Id", id.NodeID)
	}
	if id.JobID != "" {
		add("X-Aqueduct-Job-Id", "X-Aquifer-Job-Id", id.JobID)
		add("X-Aqueduct-Attempt", "X-Aquifer-Attempt", n[5])
	}
	if id.KeyHash != "" {
		add("X-Aqueduct-Idempotency-Key-Hash", "X-Aquifer-Idempotency-Key-Hash", id.KeyHash)
	}
	return h
}

// numbers are the fields of l in their order, and attempt, as parts of one string.
func numbers(l Load, attempt int) (n [6]string) {
	b := make([]byte, 0, 96) // stays on the stack
	var ends [len(n)]int
	b = strconv.AppendInt(b, l.TotalJobs, 10)
	ends[0] = len(b)
	b = strconv.AppendInt(b, l.QueueDepth, 10)
	ends[1] = len(b)
	b = strconv.AppendFloat(b, l.FlowRate, 'f', 2, 64)
	ends[2] = len(b)
	b = strconv.AppendInt(b, int64(l.ActiveQueues), 10)
	ends[3] = len(b)
	b = strconv.AppendInt(b, int64(l.UpstreamBacklog), 10)
	ends[4] = len(b)
	b = strconv.AppendInt(b, int64(attempt), 10)
	ends[5] = len(b)
	all, start := string(b), 0
	for i, end := range ends {
		n[i], start = all[start:end], end
	}
	return n
}

const (
	// orcaHeader asks the target for its load, in the open request cost aggregation format. It goes
	// out in lower case, as the reference does.
	orcaHeader = "endpoint-load-metrics-format"
	userAgent  = "User-Agent"
	agentName  = "aquifer"
)

// fields are the headers of a call: the caller's, and ours, which win.
type fields struct{ headers, extra []job.Header }

// each gives the header of the request, in the caller's spelling, without what belongs to the
// connection and what ours replace, and then ours.
func (f fields) each(yield func(name, value string) bool) {
	named := connectionOptions(f.headers)
	var asksLoad, hasAgent bool
	for _, x := range f.headers {
		private := slices.ContainsFunc(named, func(option string) bool { return fold(option, x.Name) })
		if private || egress.OfConnection(x.Name) || has(f.extra, x.Name) {
			continue
		}
		asksLoad = asksLoad || fold(x.Name, orcaHeader)
		hasAgent = hasAgent || fold(x.Name, userAgent)
		if !yield(x.Name, x.Value) {
			return
		}
	}
	for _, x := range f.extra {
		if !yield(x.Name, x.Value) {
			return
		}
	}
	if !asksLoad && !yield(orcaHeader, "text") {
		return
	}
	if !hasAgent {
		yield(userAgent, agentName)
	}
}

// connectionOptions returns the header names that a Connection header declares to be its own.
func connectionOptions(headers []job.Header) []string {
	var names []string
	for _, x := range headers {
		if fold(x.Name, "Connection") {
			for option := range strings.SplitSeq(x.Value, ",") {
				names = append(names, strings.Trim(option, " \t"))
			}
		}
	}
	return names
}

func has(headers []job.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h job.Header) bool { return fold(h.Name, name) })
}

// fold compares header names. Most differ in length already.
func fold(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
