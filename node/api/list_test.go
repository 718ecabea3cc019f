package api_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func TestListQuery(t *testing.T) {
	for _, c := range []struct {
		query string
		want  store.Query
	}{
		{"", store.Query{Limit: 50}},
		{"limit=&cursor=", store.Query{Limit: 50}},
		{
			"user_id=a%26b&status=failed&target=API.example:81&webhook=pending&limit=200",
			store.Query{UserID: "a&b", Status: job.Failed, Target: "api.example:81", Webhook: job.WebhookPending, Limit: 200},
		},
		{"limit=1", store.Query{Limit: 1}},
		{"target=API.example.:0443", store.Query{Target: "api.example", Limit: 50}},
		{"target=0x7f000001:81", store.Query{Target: "127.0.0.1:81", Limit: 50}},
	} {
		f := newFake()
		f.list = func(_ context.Context, q store.Query) (store.Page, error) {
			if q != c.want {
				t.Errorf("%s: asked for %+v, want %+v", c.query, q, c.want)
			}
			return store.Page{}, nil
		}
		resp, body := ask(t, client.InProcess(f.handler()), http.MethodGet, "/jobs?"+c.query, nil)
		if resp.StatusCode != http.StatusOK || body != `{"jobs":[]}`+"\n" {
			t.Errorf("%s: answered %d %s", c.query, resp.StatusCode, body)
		}
	}
}

func TestListRefusesBadQueries(t *testing.T) {
	for query, text := range map[string]string{
		"unknown=1":               `a parameter must be one of [user_id status target webhook limit cursor], got "unknown"`,
		"limit=1&limit=2":         `limit must stand once, got ["1" "2"]`,
		"user_id=":                "user_id must not be empty",
		"status=":                 "status must not be empty",
		"target=":                 "target must not be empty",
		"webhook=&user_id=a":      "webhook must not be empty",
		"limit=0":                 `limit must be an integer between 1 and 200, got "0"`,
		"limit=201":               `limit must be an integer between 1 and 200, got "201"`,
		"limit=-1":                `limit must be an integer between 1 and 200, got "-1"`,
		"limit=x":                 `limit must be an integer between 1 and 200, got "x"`,
		"status=in_flight":        `status must be one of [queued completed failed], got "in_flight"`,
		"webhook=lost":            `webhook must be one of [none pending delivered rejected failed skipped], got "lost"`,
		"target=http://a.example": `target must be host or host:port as in the URL, got "http://a.example"`,
		"target=a.example:x":      `target must be host or host:port as in the URL, got "a.example:x"`,
		"cursor=x":                `cursor must be the next_cursor of an earlier page, got "x"`,
		"user_id=%zz":             "the query string must be well-formed",
		"user_id=a;status=b":      "the query string must be well-formed",
	} {
		resp, body := ask(t, client.InProcess(newFake().handler()), http.MethodGet, "/jobs?"+query, nil)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(unescaped(body), text) {
			t.Errorf("%s: answered %d %s, want 400 with %s", query, resp.StatusCode, body, text)
		}
	}
}

// pages serves jobs 1 to n in pages, the newest first.
func pages(n int) func(context.Context, store.Query) (store.Page, error) {
	return func(_ context.Context, q store.Query) (p store.Page, _ error) {
		for i := n; i > 0; i-- {
			id := idOf(byte(i))
			switch {
			case !q.Before.IsZero() && slices.Compare(id[:], q.Before[:]) >= 0:
			case len(p.Jobs) == q.Limit:
				p.Next = p.Jobs[len(p.Jobs)-1].Job.ID
				return p, nil
			default:
				p.Jobs = append(p.Jobs, queuedJob(byte(i), job.Order(i)))
			}
		}
		return p, nil
	}
}

func TestListPagesThroughEverything(t *testing.T) {
	f := newFake()
	f.list = pages(7)
	c := f.client(t)
	for size := 1; size <= 8; size++ {
		var got []string
		for j, err := range c.List(t.Context(), client.Query{PageSize: size}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, j.JobID)
		}
		var want []string
		for i := 7; i > 0; i-- {
			want = append(want, idOf(byte(i)).String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: listed %v, want %v", size, got, want)
		}
	}
}

// A store looks at a bounded number of jobs per page, and may find none.
func TestListGoesOnBehindEmptyPages(t *testing.T) {
	f := newFake()
	f.list = func(_ context.Context, q store.Query) (store.Page, error) {
		switch q.Before {
		case job.ID{}:
			return store.Page{Next: idOf(5)}, nil
		case idOf(5):
			return store.Page{Jobs: []job.Snapshot{queuedJob(2, 2)}}, nil
		}
		t.Errorf("asked behind %v", q.Before)
		return store.Page{}, nil
	}
	n := 0
	for _, err := range f.client(t).List(t.Context(), client.Query{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("listed %d jobs, want 1", n)
	}
}

func TestListedJobsAreSummaries(t *testing.T) {
	f := newFake()
	f.list = func(context.Context, store.Query) (store.Page, error) {
		return store.Page{Jobs: []job.Snapshot{ended(queuedJob(1, 1), job.Result{Status: 200, Body: []byte("large")})}}, nil
	}
	_, body := ask(t, client.InProcess(f.handler()), http.MethodGet, "/jobs", nil)
	want := `{"jobs":[{"job_id":"` + idOf(1).String() + `","status":"completed","user_id":"u","url":"http://target.example:81/x","method":"POST",` +
		`"webhook_url":"http://receiver.example/hook","created_at":1000,"execute_before":0,"max_retries":4,` +
		`"webhook":{"state":"pending","attempts":0,"last_status":0}}]}` + "\n"
	if body != want {
		t.Errorf("listed as\n%s, want\n%s", body, want)
	}
}

// A cursor is accepted exactly if it is one that the node gives out.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "x", "AQEAAAAABwAAAAAAAAAAAAc", "AQEAAAAABwAAAAAAAAAAAAd", "AgEAAAAABwAAAAAAAAAAAAc", "AQEAAAAABwAA\nAAAAAAAAAAc", "AQAAAAAAAAAAAAAAAAAAAAA"} {
		f.Add(seed)
	}
	fk := newFake()
	fk.list = func(_ context.Context, q store.Query) (store.Page, error) {
		return store.Page{Next: q.Before}, nil // gives the cursor back
	}
	rt := client.InProcess(fk.handler())
	f.Fuzz(func(t *testing.T, cursor string) {
		resp, body := ask(t, rt, http.MethodGet, "/jobs?cursor="+url.QueryEscape(cursor), nil)
		switch resp.StatusCode {
		case http.StatusBadRequest:
		case http.StatusOK:
			if cursor != "" && body != `{"jobs":[],"next_cursor":`+strconv.Quote(cursor)+"}\n" {
				t.Errorf("cursor %q was read as the one in %s", cursor, body)
			}
		default:
			t.Errorf("cursor %q: answered %d %s", cursor, resp.StatusCode, body)
		}
	})
}
