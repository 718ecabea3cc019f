package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// documented reads the table of statuses in the package documentation: by kind, the rest of its line.
func documented(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(file.Doc.Text(), "kind         status")
	if !found {
		t.Fatal("doc.go has no table of statuses")
	}
	table, _, _ := strings.Cut(after, "\n\n")
	rows := make(map[string]string)
	for _, line := range strings.Split(table, "\n")[1:] {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rows[kind] = strings.TrimSpace(rest)
	}
	return rows
}

// submitError is the answer to a job that the intake refuses with err.
func submitError(t *testing.T, f *fake, err error) (*http.Response, string) {
	t.Helper()
	f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) { return intake.Receipt{}, err }
	return ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(valid))
}

func TestStatusesAreDocumented(t *testing.T) {
	rows := documented(t)
	if len(rows) != len(fault.Kinds()) {
		t.Errorf("the table has %d kinds, package fault has %d", len(rows), len(fault.Kinds()))
	}
	for _, kind := range fault.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			row := rows[kind.String()]
			want, err := strconv.Atoi(strings.Fields(row + " none")[0])
			if err != nil {
				t.Fatalf("row %q has no status", row)
			}
			refusal := fault.Wrap(kind, errors.New("secret"), "detail")
			refusal.Limit = &fault.Limit{Reason: "reason", Limit: 7, Current: 8}
			resp, body := submitError(t, newFake(), refusal)
			if resp.StatusCode != want {
				t.Errorf("status %d, documented is %d", resp.StatusCode, want)
			}
			if ct := resp.Header.Get("Content-Type"); ct != "application/json" || !strings.HasSuffix(body, "}\n") {
				t.Errorf("Content-Type %q, body %q", ct, body)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("the cause is shown: %s", body)
			}
			for mark, have := range map[string]bool{
				"Retry-After":           resp.Header.Get("Retry-After") != "",
				"X-Aqueduct-Node-State": resp.Header.Get("X-Aqueduct-Node-State") == "draining" && resp.Header.Get("X-Aquifer-Node-State") == "draining",
				"connection closes":     resp.Header.Get("Connection") == "close",
				"limit_bytes":           strings.Contains(body, `"limit_bytes":7`),
				"limit_reason":          strings.Contains(body, `"limit_reason":"reason","limit":7,"current":8`),
			} {
				if documented := strings.Contains(row, mark); have != documented && (mark != "limit_reason" || documented) {
					t.Errorf("%s: answered %v, documented %v; body %s", mark, have, documented, body)
				}
			}
		})
	}
}

func TestErrorsWithoutKind(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
	}{
		{errors.New("disk on fire"), 500, `{"error":"internal error"}`},
		{fault.New(fault.Internal, "table jobs is corrupt"), 500, `{"error":"internal error"}`},
		{&fault.Error{Detail: "no kind"}, 500, `{"error":"internal error"}`},
		{fmt.Errorf("get: %w", store.ErrNotFound), 404, `{"error":"job not found"}`},
		{fmt.Errorf("get: %w", store.ErrClosed), 503, `{"error":"the node has stopped"}`},
		{fmt.Errorf("wrapped: %w", fault.New(fault.Mismatch, "key is taken")), 422, `{"error":"key is taken"}`},
	} {
		resp, body := submitError(t, newFake(), c.err)
		if resp.StatusCode != c.status || body != c.body+"\n" {
			t.Errorf("%v: answered %d %s, want %d %s", c.err, resp.StatusCode, body, c.status, c.body)
		}
	}
}

func TestCausesAreLogged(t *testing.T) {
	var log bytes.Buffer
	submitError(t, newLogged(&log), fault.New(fault.Overloaded, "no room"))
	submitError(t, newLogged(&log), fault.New(fault.Unavailable, "the node is starting"))
	if log.Len() > 0 {
		t.Errorf("a refusal is no failure, logged: %s", &log)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("disk on fire"), `error="internal: disk on fire"`},
		{fault.New(fault.Internal, "table jobs is corrupt"), `error="internal: table jobs is corrupt"`},
		{fault.Wrap(fault.Unavailable, errors.New("ENOSPC"), "cannot store"), `error="unavailable: cannot store: ENOSPC"`},
	} {
		log.Reset()
		submitError(t, newLogged(&log), c.err)
		for _, want := range []string{`level=ERROR msg="request failed" route="POST /jobs"`, c.want} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("log lacks %s: %s", want, &log)
			}
		}
	}
}

func TestFailuresDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newLogged(&log)
		f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) {
			return intake.Receipt{}, errors.New("disk on fire")
		}
		rt := client.InProcess(f.handler())
		for range 25 { // for 2.5 s
			ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(valid))
			time.Sleep(100 * time.Millisecond)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 3 || strings.Count(log.String(), "more_before=9") != 2 {
			t.Errorf("%d lines, want 3 that count: %s", lines, &log)
		}
	})
}

func newLogged(log *bytes.Buffer) *fake {
	f := newFake()
	f.log = slog.New(slog.NewTextHandler(log, nil))
	return f
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	for _, c := range []struct {
		own, node time.Duration
		want      string
	}{
		{0, 5 * time.Second, "5"},
		{0, 0, "1"},
		{time.Millisecond, 5 * time.Second, "1"},
		{1001 * time.Millisecond, 0, "2"},
		{20 * time.Second, 5 * time.Second, "20"},
		{-time.Second, 0, "1"},
	} {
		f := newFake()
		f.wait = c.node
		resp, _ := submitError(t, f, &fault.Error{Kind: fault.Overloaded, Detail: "no", RetryAfter: c.own})
		if got := resp.Header.Values("Retry-After"); len(got) != 1 || got[0] != c.want {
			t.Errorf("fault %v, node %v: Retry-After %q, want %q", c.own, c.node, got, c.want)
		}
	}
}
