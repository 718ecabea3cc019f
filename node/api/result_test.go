package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// answers are results by the names of their keys. Each that begins with ! is an error.
type answers map[string]string

func (a answers) Result(_ context.Context, key job.Key) (string, error) {
	text, known := a[key.UserID+"/"+key.Name]
	switch {
	case !known:
		return "", fault.New(fault.NotFound, "job result not found")
	case text == "!away":
		return "", fault.Wrap(fault.Unavailable, errors.New("valkey"), "the results of other nodes cannot be read now")
	case text == "!closed":
		return "", store.ErrClosed
	case text[0] == '!':
		return "", errors.New(text)
	}
	return text, nil
}

// neighbor is a cluster with one other node.
type neighbor struct {
	api.Cluster
	knows string // the key whose result it has
	asked []string
}

func (n *neighbor) ToKeyHolder(w http.ResponseWriter, _ *http.Request, key job.Key) int {
	name := key.UserID + "/" + key.Name
	n.asked = append(n.asked, name)
	if name != n.knows {
		return 0
	}
	_, _ = io.WriteString(w, `{"from":"the neighbor"}`)
	return http.StatusOK
}

func TestResults(t *testing.T) {
	const stored = `{"job_id":"x","body":"<a> & b", "odd":  1.0}` // as it came from elsewhere
	known := answers{"u/k": stored, "a b/k:1": stored, "/k": stored, "u/away": "!away", "u/closed": "!closed", "u/broken": "!a secret"}
	const notFound = `{"error":"job result not found"}`
	for _, c := range []struct {
		query  string
		shared bool
		status int
		body   string
	}{
		{"user_id=u&idempotent_key=k", false, 200, stored},
		{"user_id=u&idempotent_key=k&idempotency_scope=user", false, 200, stored},
		{"user_id=u&idempotent_key=k&idempotency_scope=", false, 200, stored},
		{"user_id=a+b&idempotent_key=k%3A1", false, 200, stored},
		{"idempotent_key=k&idempotency_scope=shared", true, 200, stored},
		{"user_id=u&idempotent_key=k&idempotency_scope=shared", true, 200, stored},
		{"idempotent_key=k&idempotency_scope=shared", false, 400, `{"error":"idempotency_scope \"shared\" is not enabled on this node"}`},
		{"user_id=u&idempotent_key=k&idempotency_scope=all", true, 400, `{"error":"idempotency_scope must be \"user\" or \"shared\", got \"all\""}`},
		{"idempotent_key=k&user_id=a%00", false, 400, `{"error":"user_id must not contain a NUL character, got \"a\\x00\""}`},
		{"user_id=u", false, 400, `{"error":"idempotent_key is required"}`},
		{"", false, 400, `{"error":"idempotent_key is required"}`},
		{"idempotent_key=k", true, 400, `{"error":"user_id is required"}`},
		{"idempotent_key=k&user_id=%zz", false, 400, `{"error":"the query string must be well-formed: invalid URL escape \"%zz\""}`},
		{"user_id=u&idempotent_key=other", false, 404, notFound},
		{"user_id=other&idempotent_key=k", false, 404, notFound},
		{"user_id=u&idempotent_key=away", false, 503, `{"error":"the results of other nodes cannot be read now"}`},
		{"user_id=u&idempotent_key=closed", false, 503, `{"error":"the node has stopped"}`},
		{"user_id=u&idempotent_key=broken", false, 500, `{"error":"internal error"}`},
	} {
		rt := client.InProcess(newFake().handler(func(conf *api.Config) {
			conf.Results, conf.Rules.SharedScope = known, c.shared
		}))
		resp, body := ask(t, rt, http.MethodGet, "/results?"+c.query, nil)
		if resp.StatusCode != c.status || body != c.body+"\n" || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: answered %d %s, want %d %s", c.query, resp.StatusCode, body, c.status, c.body)
		}
		if again := resp.Header.Get("Retry-After") != ""; again != (c.status == 503) {
			t.Errorf("%s: Retry-After there: %v", c.query, again)
		}
	}
}

// Another node is asked for what this one cannot tell, and only for that.
func TestResultsElsewhere(t *testing.T) {
	known := answers{"u/here": `{"from":"here"}`, "u/away": "!away", "u/lost": "!away", "u/broken": "!a secret"}
	for _, c := range []struct {
		key, knows string
		asked      bool
		status     int
		body       string
	}{
		{"here", "u/here", false, 200, `{"from":"here"}`},
		{"there", "u/there", true, 200, `{"from":"the neighbor"}`},
		{"away", "u/away", true, 200, `{"from":"the neighbor"}`},
		{"lost", "", true, 503, `{"error":"the results of other nodes cannot be read now"}`},
		{"nowhere", "", true, 404, `{"error":"job result not found"}`},
		{"broken", "u/broken", false, 500, `{"error":"internal error"}`},
		{"", "", false, 400, `{"error":"idempotent_key is required"}`},
	} {
		n := &neighbor{knows: c.knows}
		rt := client.InProcess(newFake().handler(func(conf *api.Config) { conf.Results, conf.Cluster = known, n }))
		resp, body := ask(t, rt, http.MethodGet, "/results?user_id=u&idempotent_key="+c.key, nil)
		if resp.StatusCode != c.status || strings.TrimSuffix(body, "\n") != c.body || (len(n.asked) > 0) != c.asked {
			t.Errorf("%s: answered %d %s, want %d %s; the neighbor was asked for %q", c.key, resp.StatusCode, body, c.status, c.body, n.asked)
		}
	}
}

func TestDuplicateWithResult(t *testing.T) {
	f := newFake()
	f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) {
		return intake.Receipt{ID: idOf(1), Status: job.Completed, Duplicate: true, PayloadMismatch: true, ResultKey: "aqueduct:result:1"}, nil
	}
	want := `{"job_id":"` + idOf(1).String() + `","status":"completed","duplicate":true,"payload_mismatch":true,"result_key":"aqueduct:result:1"}`
	if resp, body := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(valid)); resp.StatusCode != 200 || body != want+"\n" {
		t.Errorf("answered %d %s, want %s", resp.StatusCode, body, want)
	}
	again := newFake()
	again.submit = f.submit
	got, err := again.client(t).Submit(t.Context(), client.Submission{
		UserID: "u", IdempotentKey: "k", URL: "http://target.example/", Method: "GET", WebhookURL: "http://receiver.example/",
	})
	if err != nil || got.ResultKey != "aqueduct:result:1" {
		t.Errorf("a client gets %+v, %v", got, err)
	}
}
