package cluster

import "net/http"

// carried are the fields of a client's header that change what a node does with a request. They go with
// it to the node that answers.
func carried() [11]string {
	return [...]string{
		"Content-Type", "Accept", "Last-Event-Id", "Idempotency-Key", "Traceparent",
		"X-Aqueduct-Account-Queue", "X-Aquifer-Account-Queue", "X-Aqueduct-Max-Retries", "X-Aquifer-Max-Retries",
		"X-Aqueduct-Durability", "X-Aquifer-Durability",
	}
}

// Carried returns what of a client's header goes with a request to another node, for Call.Header. With
// it, and with the body as it came, the other node judges the request as this one would.
func Carried(h http.Header) http.Header {
	kept := make(http.Header)
	for _, name := range carried() {
		if values, there := h[name]; there {
			kept[name] = values
		}
	}
	return kept
}
