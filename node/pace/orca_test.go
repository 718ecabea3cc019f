package pace

import (
	"strings"
	"testing"
)

func TestLoadReports(t *testing.T) {
	for report, want := range map[string]float64{
		"TEXT kv_cache_usage_perc=0.5":   0.5,
		"TEXT kv_cache_utilization=0.25": 0.25,
		"TEXT named_metrics.kv_cache_usage_perc=0.5, named_metrics.num_requests_waiting=3":          0.5,
		"TEXT cpu_utilization=0.9,kv_cache_utilization=0.25,max_token_capacity=16":                  0.25,
		"text  kv_cache_utilization = 0.25 ":                                                        0.25,
		" TEXT kv_cache_usage_perc=0.1, kv_cache_utilization=0.8":                                   0.8,
		"TEXT kv_cache_usage_perc=1.5":                                                              1.5,
		"TEXT kv_cache_usage_perc=9.5e-1":                                                           0.95,
		"TEXT kv_cache_usage_perc=abc, kv_cache_usage_perc=0.5":                                     0.5,
		`JSON {"named_metrics":{"kv_cache_usage_perc":0.5}}`:                                        0.5,
		`JSON {"named_metrics": {"kv_cache_utilization": 0.25, "max_token_capacity": 1}, "rps": 2}`: 0.25,
		`json {"kv_cache_utilization":0.25}`:                                                        0.25,
		`Json {"named_metrics.kv_cache_utilization":0.25}`:                                          0.25,
		`JSON {"named_metrics":{"kv_cache_usage_perc":1e309,"kv_cache_utilization":0.25}}`:          0.25,
		`JSON {"named_metrics":{"kv_cache_usage_perc":0}}`:                                          0,
	} {
		if got, ok := ParseORCA(report); !ok || got != want {
			t.Errorf("%s: got %v, %v, want %v", report, got, ok, want)
		}
	}
}

func TestLoadReportsThatSayNothing(t *testing.T) {
	for _, report := range []string{
		"", "TEXT", "TEXT ", "JSON", "JSON ", "BIN kv_cache_usage_perc=0.5", "kv_cache_usage_perc=0.5", "TEXTkv_cache_usage_perc=0.5",
		"TEXT kv_cache_usage_perc", "TEXT kv_cache_usage_perc=", "TEXT kv_cache_usage_perc=-0.5", "TEXT kv_cache_usage_perc=NaN",
		"TEXT kv_cache_usage_perc=Inf", "TEXT kv_cache_usage_perc=1e309", "TEXT kv_cache_usage_perc=0x1", "TEXT kv_cache_usage_perc=50%",
		"TEXT other=0.9", "TEXT xkv_cache_usage_perc=0.9", "TEXT KV_CACHE_USAGE_PERC=0.9", "TEXT named_metrics.named_metrics.kv_cache_usage_perc=0.9",
		"JSON null", "JSON []", "JSON 0.9", "JSON {", `JSON {"kv_cache_usage_perc":"0.9"}`, `JSON {"kv_cache_usage_perc":null}`,
		`JSON {"kv_cache_usage_perc":-1}`, `JSON {"kv_cache_usage_perc":[0.9]}`, `JSON {"named_metrics":0.9}`,
		`JSON {"named_metrics":{"kv_cache_usage_perc":0.9}`, `JSON {"kv_cache_usage_perc":0.9} trailing`,
		"TEXT kv_cache_usage_perc=0.9" + strings.Repeat(" ", maxReport) + ",x=1",
	} {
		if got, ok := ParseORCA(report); ok {
			t.Errorf("%q: got %v", report, got)
		}
	}
}

func TestOfSeveralLoadReportsTheHighestCounts(t *testing.T) {
	s := ReadSignal(200, false, headers(
		orcaHeader, "TEXT kv_cache_usage_perc=0.3", orcaHeader, "TEXT kv_cache_usage_perc=0.9", orcaHeader, "TEXT x=1"), start)
	if s.Utilization != (Hint[float64]{0.9, "Endpoint-Load-Metrics"}) {
		t.Errorf("got %+v", s.Utilization)
	}
}

func TestRateOfALoad(t *testing.T) {
	for fill, want := range map[float64]float64{
		0: 0, 0.5: 0, 0.699999: 0, 0.70: 2, 0.899999: 2, 0.90: 0.5, 0.969999: 0.5, 0.97: 0.25, 1: 0.25, 45: 0.25,
	} {
		if got, ok := rateAt(fill); got != want || ok != (want > 0) {
			t.Errorf("%v: got %v, %v, want %v", fill, got, ok, want)
		}
	}
}

func TestOverload(t *testing.T) {
	if relief(Hint[float64]{}) || relief(full("0.69").Utilization) || !relief(full("0.70").Utilization) {
		t.Error("a target is overloaded from 70 % on")
	}
}

func FuzzORCA(f *testing.F) {
	for _, seed := range []string{
		"TEXT kv_cache_usage_perc=0.5, x=1", `JSON {"named_metrics":{"kv_cache_utilization":0.25}}`, "JSON [[[[", "TEXT ,,==,=",
		`JSON {"kv_cache_usage_perc":1e309}`, "BIN AAAA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, report string) {
		fill, ok := ParseORCA(report)
		if !ok && fill != 0 || ok && !(fill >= 0) {
			t.Errorf("%q: got %v, %v", report, fill, ok)
		}
	})
}

// BenchmarkReadSignal reads an answer that carries all hints.
func BenchmarkReadSignal(b *testing.B) {
	h := headers("X-Aqueduct-Rps", "12.5", "X-Aqueduct-Max-Concurrent", "4", "X-Aqueduct-Account-Queue", "enabled",
		"X-Aqueduct-Max-Backlog", "500", orcaHeader, "TEXT named_metrics.kv_cache_usage_perc=0.31, named_metrics.num_requests_waiting=0")
	b.ReportAllocs()
	for b.Loop() {
		ReadSignal(200, false, h, start)
	}
}
