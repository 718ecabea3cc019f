package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestGetShowsTheWholeJob(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 3, 7, 123e6, time.Local).UnixMilli()
	shown := fmt.Sprintf(`{"job_id":"%s","status":"failed","user_id":"al\u001bice","url":"http://a/x","method":"POST",
		"headers":{"Authorization":"[redacted]"},"webhook_url":"http://b/","created_at":%d,"execute_before":%d,"max_retries":4,
		"reason":"upstream returned 503","redrive_of":"aa",
		"attempts":[{"number":1,"started_at":%d,"duration_ms":12,"response_status":0,"error":"conn_reset","retry_wait_ms":1070},
			{"number":2,"started_at":%d,"duration_ms":34,"response_status":503}],
		"webhook":{"state":"pending","attempts":1,"last_status":500},
		"result":{"response_status":503,"content_type":"text/plain","body":"busy\n","body_truncated":true}}`, someID, at, at+60000, at, at+2000)
	got := against(t, answer(200, shown), "", "job", "get", someID)
	want := `job       ` + someID + `
status    failed (upstream returned 503)
call      POST http://a/x
user      al\x1bice
created   2026-11-30 14:03:07.123
before    2026-11-30 14:04:07.123
rerun of  aa
webhook   pending, to http://b/, 1 attempt, last status 500
attempt   1 at 2026-11-30 14:03:07.123, conn_reset after 12 ms, then a wait of 1.07s
attempt   2 at 2026-11-30 14:03:09.123, status 503 after 34 ms
result    status 503 text/plain
body      "busy\n" (the node kept no more)
`
	if got != (outcome{exitDone, want, ""}) {
		t.Errorf("%+v\nwant\n%s", got, want)
	}

	got = against(t, answer(200, shown), "", "job", "get", someID, "--body")
	if got != (outcome{exitDone, "busy\n", ""}) {
		t.Errorf("the body alone: %+v", got)
	}
	got = against(t, answer(200, shown), "", "job", "get", someID, "--json")
	if got.code != exitDone || !strings.Contains(got.stdout, `"reason": "upstream returned 503"`) {
		t.Errorf("as JSON: %+v", got)
	}
}

func TestGetBodyIsByteForByte(t *testing.T) {
	got := against(t, answer(200, `{"status":"completed","result":{"body":"/wA=","body_encoding":"base64"}}`), "", "job", "get", someID, "--body")
	if got != (outcome{exitDone, "\xff\x00", ""}) {
		t.Errorf("%+v", got)
	}
	got = against(t, answer(200, `{"status":"queued"}`), "", "job", "get", someID, "--body")
	if got != (outcome{exitFailed, "", "aquifer: the job has no result: it is queued\n"}) {
		t.Errorf("%+v", got)
	}
}

// What a node leaves out stays out.
func TestJSONIsTheNodesOwn(t *testing.T) {
	const listed = `{"job_id":"` + someID + `","status":"queued","user_id":"u","url":"http://a/?b&c","method":"GET","webhook_url":"http://b/",` +
		`"created_at":1,"execute_before":0,"max_retries":4,"webhook":{"state":"none","attempts":0,"last_status":0}}`
	for _, extra := range []string{
		`,"headers":{},"attempts":[]`,
		`,"timeout_ms":0,"reason":"r","headers":{"A":""},"attempts":[{"number":1,"started_at":1,"duration_ms":0,"response_status":200}],` +
			`"result":{"response_status":200,"content_type":"","body":"","body_truncated":false}`,
	} {
		want := strings.TrimSuffix(listed, "}") + extra + "}"
		got := against(t, answer(200, want), "", "job", "get", someID, "--json")
		if got.code != exitDone || !sameJSON(got.stdout, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	got := against(t, answer(200, `{"jobs":[`+listed+`]}`), "", "job", "list", "--json")
	if got != (outcome{exitDone, listed + "\n", ""}) {
		t.Errorf("%+v, want %s", got, listed)
	}
	const receipt = `{"job_id":"` + someID + `","status":"queued"}`
	got = against(t, answer(201, receipt), "", "job", "submit", "--url", "http://a/", "--webhook", "http://b/", "--json")
	if got != (outcome{exitDone, receipt + "\n", ""}) {
		t.Errorf("%+v, want %s", got, receipt)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// jobs lists n jobs, in pages as the client asks for them.
func jobs(t *testing.T, n int, asked *[]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RawQuery)
		var from, limit int
		if cursor := r.FormValue("cursor"); cursor != "" {
			_, _ = fmt.Sscan(cursor, &from)
		}
		if _, err := fmt.Sscan(r.FormValue("limit"), &limit); err != nil || limit < 1 || limit > maxPage {
			t.Errorf("limit %q", r.FormValue("limit"))
		}
		var list []string
		for i := from; i < min(from+limit, n); i++ {
			list = append(list, fmt.Sprintf(`{"job_id":"%d","status":"queued","user_id":"u","method":"GET","url":"http://a/","webhook":{"state":"none"}}`, i))
		}
		next := ""
		if from+limit < n {
			next = fmt.Sprintf(`,"next_cursor":"%d"`, from+limit)
		}
		answer(200, `{"jobs":[`+strings.Join(list, ",")+`]`+next+`}`)(w, r)
	}
}

func TestListStopsAtTheLimit(t *testing.T) {
	const more = "there are more; raise --limit or narrow the list\n"
	tests := []struct {
		jobs   int
		args   []string
		lines  int
		stderr string
		asked  int
	}{
		{jobs: 0, stderr: "no such jobs\n", asked: 1},
		{jobs: 20, lines: 21, asked: 1},
		{jobs: 21, lines: 21, stderr: more, asked: 1},
		{jobs: 3, args: []string{"--limit", "2"}, lines: 3, stderr: more, asked: 1},
		{jobs: 450, args: []string{"--limit", "450"}, lines: 451, asked: 3},
		{jobs: 450, args: []string{"--limit", "200"}, lines: 201, stderr: more, asked: 2},
		{jobs: 450, args: []string{"--json", "--limit", "450"}, lines: 450, asked: 3},
		{jobs: 0, args: []string{"--json"}, asked: 1},
	}
	for _, tt := range tests {
		var asked []string
		got := against(t, jobs(t, tt.jobs, &asked), "", append([]string{"job", "list"}, tt.args...)...)
		if got.code != exitDone || strings.Count(got.stdout, "\n") != tt.lines || got.stderr != tt.stderr || len(asked) != tt.asked {
			t.Errorf("%d jobs, %v: %d lines, stderr %q, %d requests", tt.jobs, tt.args, strings.Count(got.stdout, "\n"), got.stderr, len(asked))
		}
	}
}

func TestListAsksForWhatItWasTold(t *testing.T) {
	var asked []string
	got := against(t, jobs(t, 1, &asked), "", "job", "list", "--user", "a&b", "--status", "failed", "--target", "a:80", "--webhook", "rejected", "--limit", "7")
	if want := "limit=8&status=failed&target=a%3A80&user_id=a%26b&webhook=rejected"; len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	header := "JOB  CREATED"
	if !strings.HasPrefix(got.stdout, header) || !strings.Contains(got.stdout, "queued  none     u     GET http://a/\n") {
		t.Errorf("%+v", got)
	}
}
