package pace

import (
	"encoding/json"
	"net/http"
	"strings"
)

// orcaHeader carries an Open Request Cost Aggregation report (xds.data.orca.v3.OrcaLoadReport) in the
// form in which vLLM and Triton send it.
const orcaHeader = "Endpoint-Load-Metrics"

// maxReport bounds what is read of a report; those of vLLM and Triton have some hundred bytes.
const maxReport = 16 << 10

// utilization reads the fill of the cache from the load reports of an answer. Of several the highest
// counts.
func utilization(h http.Header) Hint[float64] {
	var full Hint[float64]
	for _, report := range h.Values(orcaHeader) {
		if u, ok := ParseORCA(report); ok && (!full.Given() || u > full.Value) {
			full = Hint[float64]{u, orcaHeader}
		}
	}
	return full
}

// ParseORCA reads the fill of the key-value cache from a load report: "TEXT name=value, ..." or
// "JSON {...}", the first word in any case. The metric is called kv_cache_usage_perc by vLLM and
// kv_cache_utilization by Triton; it stands alone, behind "named_metrics." or inside of
// named_metrics. It is a number of 0 or more, 1 being full; if both are there the higher one counts. ok is
// false for a report without a readable metric.
func ParseORCA(report string) (fill float64, ok bool) {
	if len(report) > maxReport {
		return 0, false
	}
	format, rest, _ := strings.Cut(trim(report), " ")
	var found gauge
	switch {
	case strings.EqualFold(format, "TEXT"):
		for pair := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(pair, "=")
			found.read(trim(name), trim(value))
		}
	case strings.EqualFold(format, "JSON"):
		found.object(json.RawMessage(rest))
	}
	return found.fill, found.ok
}

// gauge is the highest fill that was found.
type gauge struct {
	fill float64
	ok   bool
}

func (g *gauge) read(name, value string) {
	switch strings.TrimPrefix(name, "named_metrics.") {
	case "kv_cache_usage_perc", "kv_cache_utilization":
		if f, ok := decimal(value); ok {
			g.fill, g.ok = max(g.fill, f), true
		}
	}
}

func (g *gauge) object(o json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(o, &fields) != nil {
		return
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(fields["named_metrics"], &named) == nil {
		for name, value := range named {
			g.read(name, string(value))
		}
	}
	for name, value := range fields {
		g.read(name, string(value))
	}
}

// rateAt is the pace that suits a target whose cache is so full, in dispatches a second. ok is false
// below 0.70, where a target needs no relief.
func rateAt(fill float64) (rps float64, ok bool) {
	switch {
	case fill >= 0.97:
		return MinRPS, true
	case fill >= 0.90:
		return 0.5, true
	case fill >= 0.70:
		return 2, true
	}
	return 0, false
}
