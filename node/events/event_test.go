package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestEventsOnTheWire(t *testing.T) {
	id := testID.String()
	waiting := tried(2)
	running := tried(0)
	running.begin()
	answered := func(status job.Status, reason string, r *job.Result) job.Snapshot {
		l := tried(0)
		l.begin()
		l.end(job.End{Status: status, Reason: reason, Result: r, Last: &job.Attempt{Number: 1}})
		return l.s
	}
	dropped := tried(1)
	dropped.drop()
	unsent := newLife()
	unsent.drop()

	for name, c := range map[string]struct {
		event events.Event
		id    string
		name  string
		data  string
	}{
		"queued":                        {events.Queued(testID), "1", "queued", `{"job_id":"` + id + `","status":"queued"}`},
		"dispatching":                   {events.Dispatching(running.s), "2", "dispatching", `{"attempt":1,"job_id":"` + id + `"}`},
		"position":                      {events.Position(testID, 3, 5, new(int64(1500))), "3", "position", `{"eta_ms":1500,"job_id":"` + id + `","position":5}`},
		"position of nobody knows when": {events.Position(testID, 3, 5, nil), "3", "position", `{"job_id":"` + id + `","position":5}`},
		"retrying": {
			events.Retrying(waiting.s, "dial: refused"), "5", "retrying",
			`{"attempt":2,"job_id":"` + id + `","max_retries":4,"reason":"dial: refused","response_status":503,"retry_at":3025}`,
		},
		"completed": {
			events.Terminal(answered(job.Completed, "", &job.Result{Status: 201, Body: []byte("a<b>&\n\u2028")}), nil), "4", "completed",
			`{"body":"a\u003cb\u003e\u0026\n\u2028","job_id":"` + id + `","response_status":201}`,
		},
		"completed, binary": {
			events.Terminal(answered(job.Completed, "", &job.Result{Status: 200, Body: []byte("\xff\xfe\x00\xc3\x28")}), nil), "4", "completed",
			`{"body":"//4Awyg=","body_encoding":"base64","job_id":"` + id + `","response_status":200}`,
		},
		"completed, cut inside a character": {
			events.Terminal(answered(job.Completed, "", &job.Result{Status: 200, Body: []byte("gr\xc3"), Truncated: true}), nil), "4", "completed",
			`{"body":"gr","body_truncated":true,"job_id":"` + id + `","response_status":200}`,
		},
		"completed, whole body at hand": {
			events.Terminal(answered(job.Completed, "", &job.Result{Status: 200, Body: []byte("gr\xc3"), Truncated: true}), []byte("grün")), "4", "completed",
			`{"body":"grün","job_id":"` + id + `","response_status":200}`,
		},
		"completed, no whole body anywhere": {
			events.Terminal(answered(job.Completed, "", &job.Result{Status: 200, Truncated: true, Partial: true}), []byte("gr\xc3")), "4", "completed",
			`{"body":"gr","body_truncated":true,"job_id":"` + id + `","response_status":200}`,
		},
		"failed": {
			events.Terminal(answered(job.Failed, "upstream returned 500", &job.Result{Status: 500, Body: []byte("no")}), nil), "4", "failed",
			`{"attempts":1,"body":"no","job_id":"` + id + `","reason":"upstream returned 500","response_status":500}`,
		},
		"failed, no answer, reason not UTF-8": {
			events.Terminal(answered(job.Failed, "bad reply \xff", nil), nil), "4", "failed",
			`{"attempts":1,"body":"","job_id":"` + id + `","reason":"bad reply �","response_status":0}`,
		},
		"failed, dropped": {
			events.Terminal(dropped.s, nil), "4", "failed",
			`{"job_id":"` + id + `","reason":"execution_deadline_exceeded"}`,
		},
		"failed, never sent": {
			events.Terminal(unsent.s, nil), "2", "failed",
			`{"job_id":"` + id + `","reason":"execution_deadline_exceeded"}`,
		},
		"gap":            {events.Gap(6, events.GapTrimmed), "5", "gap", `{"oldest":6,"reason":"trimmed"}`},
		"closing":        {events.Closing(5, events.ClosingShutdown), "5", "closing", `{"reason":"shutdown"}`},
		"rerouted":       {events.Rerouted("fra"), "0", "rerouted", `{"region":"fra"}`},
		"proxy fallback": {events.ProxyFallback(testID, "upstream_overloaded", 503), "0", "proxy_fallback", `{"job_id":"` + id + `","reason":"upstream_overloaded","upstream_status":503}`},
		"proxy fallback, no answer": {
			events.ProxyFallback(testID, "upstream_unreachable", 0), "0", "proxy_fallback",
			`{"job_id":"` + id + `","reason":"upstream_unreachable"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := c.event.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if string(data) != c.data || c.event.ID() != c.id || c.event.Name != c.name {
				t.Errorf("got  %s %s %s\nwant %s %s %s", c.event.ID(), c.event.Name, data, c.id, c.name, c.data)
			}
			wantSortedKeys(t, data)
			wantDecoded(t, c.event, data)
		})
	}
}

func wantSortedKeys(t *testing.T, data []byte) {
	t.Helper()
	var keys []string
	dec := json.NewDecoder(bytes.NewReader(data))
	_, _ = dec.Token()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(keys) {
		t.Errorf("keys are not sorted: %v", keys)
	}
}

func wantDecoded(t *testing.T, e events.Event, data []byte) {
	t.Helper()
	want := e.Data
	switch d := want.(type) {
	case events.DroppedData:
		want = events.FailedData{JobID: d.JobID, Reason: d.Reason}
	case events.FailedData:
		d.Reason = strings.ToValidUTF8(d.Reason, "\uFFFD")
		want = d
	}
	got, ok, err := events.Decode(e.Name, data)
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded to %#v, %v, %v", got, ok, err)
	}
}

func TestDecodeOfStrangers(t *testing.T) {
	if _, ok, err := events.Decode("applause", []byte(`{`)); ok || err != nil {
		t.Errorf("unknown name: ok %v, error %v", ok, err)
	}
	if _, ok, err := events.Decode(events.NameQueued, []byte(`[]`)); !ok || err == nil {
		t.Errorf("wrong data: ok %v, error %v", ok, err)
	}
}

// Whatever a target answers or a transport says, the data is one line of JSON.
func TestJSONIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := tried(1)
		l.begin()
		l.end(job.End{
			Status: job.Failed, Reason: string(rapid.SliceOf(rapid.Byte()).Draw(t, "reason")),
			Last:   &job.Attempt{Number: 2},
			Result: &job.Result{Status: 500, Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"), Truncated: rapid.Bool().Draw(t, "cut")},
		})
		data, err := events.Terminal(l.s, nil).JSON()
		if err != nil || !json.Valid(data) || bytes.ContainsAny(data, "\r\n") {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
