package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// owners is a cluster that is asked for nothing else.
type owners struct {
	api.Cluster
	of func(userID string) (api.Owner, error)
}

func (o owners) Owner(_ context.Context, userID string) (api.Owner, error) { return o.of(userID) }

func TestOwner(t *testing.T) {
	const asked = "/cluster/owner?user_id="
	known := owners{of: func(userID string) (api.Owner, error) {
		switch userID {
		case "ada & co":
			return api.Owner{ID: "node-2", Address: "http://node-2:8080"}, nil
		case "bob":
			return api.Owner{ID: "node-1", Address: "http://node-1:8080", Local: true}, nil
		case "early":
			return api.Owner{}, fault.New(fault.Unavailable, "the node does not know its cluster yet: nobody has answered")
		default:
			return api.Owner{}, errors.New("a secret")
		}
	}}
	for _, c := range []struct {
		path   string
		in     api.Cluster
		status int
		body   string
	}{
		{asked + "ada+%26+co", known, 200, `{"id":"node-2","address":"http://node-2:8080","local":false}`},
		{asked + "bob", known, 200, `{"id":"node-1","address":"http://node-1:8080","local":true}`},
		{asked + "early", known, 503, `{"error":"the node does not know its cluster yet: nobody has answered"}`},
		{asked + "carol", known, 500, `{"error":"internal error"}`},
		{asked + "bob", nil, 404, `{"error":"the node is in no cluster"}`},
		{asked, known, 400, `{"error":"user_id is required"}`},
		{asked, nil, 400, `{"error":"user_id is required"}`},
		{asked + "%00", known, 400, `{"error":"user_id must not contain a NUL character, got \"\\x00\""}`},
		{"/cluster/owner", known, 400, `{"error":"user_id is required"}`},
		{"/cluster/owner?tenant=ada", known, 400, `{"error":"user_id must be the only parameter and stand once, got \"tenant=ada\""}`},
		{asked + "bob&user_id=ada", known, 400, `{"error":"user_id must be the only parameter and stand once, got \"user_id=bob\u0026user_id=ada\""}`},
		{asked + "bob&tenant=ada", known, 400, `{"error":"user_id must be the only parameter and stand once, got \"user_id=bob\u0026tenant=ada\""}`},
		{asked + "%zz", known, 400, `{"error":"the query string must be well-formed: invalid URL escape \"%zz\""}`},
	} {
		rt := client.InProcess(newFake().handler(func(conf *api.Config) { conf.Cluster = c.in }))
		resp, body := ask(t, rt, http.MethodGet, c.path, nil)
		if resp.StatusCode != c.status || body != c.body+"\n" {
			t.Errorf("%s: answered %d %s, want %d %s", c.path, resp.StatusCode, body, c.status, c.body)
		}
		if again := resp.Header.Get("Retry-After") != ""; again != (c.status == 503) {
			t.Errorf("%s: Retry-After there: %v", c.path, again)
		}
	}
}
