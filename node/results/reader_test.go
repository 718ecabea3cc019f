package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

// TestSnapshots: bodies as they stand in JSON, of which so much is kept.
func TestSnapshots(t *testing.T) {
	whole := func(body string) *job.Result { return &job.Result{Status: 201, Body: []byte(body)} }
	for name, tt := range map[string]struct {
		result  *job.Result
		payload string
		max     int
		want    string
	}{
		"whole":                     {whole("text"), "", 100, `{"response_status":201,"body":"text"}`},
		"cut":                       {whole("12345"), "", 4, `{"response_status":201,"body":"1234","body_truncated":true}`},
		"cut between characters":    {whole("aä"), "", 2, `{"response_status":201,"body":"a","body_truncated":true}`},
		"nothing kept":              {whole("text"), "", 0, `{"response_status":201,"body_truncated":true}`},
		"nothing there":             {whole(""), "", 0, `{"response_status":201}`},
		"bytes":                     {whole("\xff\xfe"), "", 100, `{"response_status":201,"body":"//4=","body_encoding":"base64"}`},
		"cut here, and nobody more": {&job.Result{Status: 201, Body: []byte("12"), Truncated: true}, "", 100, `{"response_status":201,"body":"12","body_truncated":true}`},
		"cut here, whole at hand":   {&job.Result{Status: 201, Body: []byte("12"), Truncated: true}, "1234", 100, `{"response_status":201,"body":"1234"}`},
		"nobody has the whole":      {&job.Result{Status: 201, Body: []byte("12"), Truncated: true, Partial: true}, "1234", 100, `{"response_status":201,"body":"1234","body_truncated":true}`},
		"no answer":                 {nil, "", 100, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			j := (&node{}).job("u", "k")
			var payload []byte
			if tt.payload != "" {
				payload = []byte(tt.payload)
			}
			s := job.Snapshot{Job: j, State: job.State{Status: job.Completed, Result: tt.result}}
			var got map[string]any
			if err := json.Unmarshal([]byte(results.Snapshot(s, payload, tt.max)), &got); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"job_id", "status", "recorded_at", "source", "user"} {
				if got[name] == nil {
					t.Errorf("no %s", name)
				}
				delete(got, name)
			}
			if text, _ := json.Marshal(got); !sameJSON(string(text), tt.want) {
				t.Errorf("got %s, want %s", text, tt.want)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	var x, y map[string]any
	_ = json.Unmarshal([]byte(a), &x)
	_ = json.Unmarshal([]byte(b), &y)
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

func TestReader(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	there, running := a.job("u", "there"), a.job("u", "running")
	a.Ended(ended(there, "remote"), nil)
	a.Stored(running)
	stands(t, s, entryKey(running), nil)
	local := map[string]job.Snapshot{}
	for _, name := range []string{"there", "here"} {
		local[name] = ended(b.job("u", name), "local")
	}
	local["begun"] = job.Snapshot{Job: b.job("u", "begun")}
	errDisk := errors.New("the disk is on fire")
	reader := results.Reader{Region: b.Region, MaxBytes: 100, Local: func(_ context.Context, key job.Key) (job.Snapshot, bool, error) {
		if key.Name == "unreadable" {
			return job.Snapshot{}, false, errDisk
		}
		found, ok := local[key.Name]
		return found, ok, nil
	}}
	for name, want := range map[string]string{
		"there": `"body":"remote"`, "here": `"body":"local"`, "begun": "not_found", "running": "not_found", "unknown": "not_found", "unreadable": "on fire",
	} {
		text, err := reader.Result(t.Context(), job.Key{UserID: "u", Name: name})
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
	}
	if text, err := reader.Result(t.Context(), job.Key{UserID: "u", Name: "there"}); err != nil || text != s.Get(resultKey(there)) {
		t.Errorf("got %s, %v, and %s stands there", text, err, s.Get(resultKey(there)))
	}
	s.Kill()
	if text, err := reader.Result(t.Context(), job.Key{UserID: "u", Name: "here"}); err != nil || !strings.Contains(text, "local") {
		t.Errorf("got %s, %v", text, err)
	}
	if _, err := reader.Result(t.Context(), job.Key{UserID: "u", Name: "unknown"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

// What stands at the name of a result and is none is nobody's answer.
func TestForeignResults(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	reader := results.Reader{Region: n.Region}
	id := job.ID{1}.String()
	for text, is := range map[string]bool{
		`{"job_id":"` + id + `","status":"completed"}`:                      true,
		`{"job_id":"` + id + `","status":"failed","unknown":[1]}`:           true,
		`{"job_id":"` + id + `","status":"queued"}`:                         false,
		`{"job_id":"` + id + `","status":"done"}`:                           false,
		`{"job_id":"` + id + `"}`:                                           false,
		`{"job_id":"` + id + `","status":"completed","user":"another one"}`: false,
		`{"job_id":"` + id + `","status":"completed"}x`:                     false,
		`{"job_id":"","status":"completed"}`:                                false,
		`{"job_id":"short","status":"completed"}`:                           false,
		`{"job_id":null,"status":"completed"}`:                              false,
		`{"job_id":7,"status":"completed"}`:                                 false,
		`{"status":"completed"}`:                                            false,
		`{}`:                                                                false,
		`null`:                                                              false,
		`[]`:                                                                false,
		`7`:                                                                 false,
		`x`:                                                                 false,
		``:                                                                  false,
	} {
		j := n.job("u", text+"key")
		s.Do("SET", resultKey(j), text)
		got, err := reader.Result(t.Context(), j.Request.Key())
		if is && (got != text || err != nil) || !is && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
}

func TestResultsExpire(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := config(s.URL(), "a")
	c.TTL = 300 * time.Millisecond
	n := start(t, c)
	j := n.job("u", "k")
	n.Ended(ended(j, "x"), nil)
	reader := results.Reader{Region: n.Region}
	valkeytest.Until(t, func() error {
		if n.counted("aquifer_remote_records_total", "written") != 1 {
			return errors.New("not written")
		}
		return nil
	})
	valkeytest.Until(t, func() error {
		if _, err := reader.Result(t.Context(), j.Request.Key()); !fault.Is(err, fault.NotFound) {
			return errors.Join(errors.New("it is there still"), err)
		}
		return nil
	})
}
