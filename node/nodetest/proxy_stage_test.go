package nodetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// reply is the answer to a call.
type reply struct {
	status int
	header http.Header
	body   string
}

// callOf is the body of a call.
func callOf(sub client.Submission, extra ...string) string {
	b, err := json.Marshal(struct {
		client.Submission
		Text string `json:"body,omitzero"`
	}{sub, string(sub.Body)})
	if err != nil {
		panic(err)
	}
	for _, field := range extra {
		b = append(b[:len(b)-1], ","+field+"}"...)
	}
	return string(b)
}

// call has the node call the target at once, and reads the whole answer.
func (s *stage) call(edit ...func(*client.Submission)) reply {
	s.t.Helper()
	return s.callWith(callOf(s.submission(edit...)))
}

func (s *stage) callWith(body string, headers ...string) reply {
	s.t.Helper()
	h := map[string]string{}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	var r reply
	r.status, r.header, r.body = s.send(http.MethodPost, "/proxy", strings.NewReader(body), h)
	return r
}

// events are those of an answer that is a stream.
func (r reply) events() []told {
	st := &stream{r: bufio.NewReader(strings.NewReader(r.body))}
	return st.rest()[1:] // the first one is the greeting
}

// field is a field of the first event with this name, as it stands in JSON.
func (r reply) field(event, name string) string {
	for _, e := range r.events() {
		var data map[string]json.RawMessage
		if e.name == event && json.Unmarshal([]byte(e.data), &data) == nil {
			return string(data[name])
		}
	}
	return ""
}

// id is that of the job of a stream.
func (r reply) id() string { return strings.Trim(r.field("queued", "job_id"), `"`) }

// fellBack fails the test unless the answer is the stream of a queued job, for this reason, with these events. What has come
// and gone before the stream begins, it does not tell: the retry after the attempt past the queue, and the next attempt.
func (s *stage) fellBack(r reply, reason, want string) {
	s.t.Helper()
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("answered %d %v: %s", r.status, r.header, r.body)
	}
	got := strings.Replace(names(r.events()), "queued retrying", "queued", 1)
	if got != want && got != strings.Replace(want, "queued dispatching", "queued", 1) {
		s.t.Errorf("the stream told %q, want %q", got, want)
	}
	if got := r.field("proxy_fallback", "reason"); got != strconv.Quote(reason) {
		s.t.Errorf("it fell back because of %s, want %q", got, reason)
	}
	for _, name := range []string{"Active-Queues", "Upstream-Backlog", "Queue-Backlog", "Admission-Pressure"} {
		if r.header.Get("X-Aqueduct-"+name) == "" || r.header.Get("X-Aqueduct-"+name) != r.header.Get("X-Aquifer-"+name) {
			s.t.Errorf("header %s is %q", name, r.header.Get("X-Aqueduct-"+name))
		}
	}
}

// only is the one job that the node has.
func (s *stage) only() client.Job {
	s.t.Helper()
	var all []client.Job
	for j, err := range s.node.Client().List(s.t.Context(), client.Query{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, j)
	}
	if len(all) != 1 {
		s.t.Fatalf("%d jobs", len(all))
	}
	return all[0]
}

// caller is one who calls without a client between him and the connection.
type caller struct {
	net.Conn
	s *stage
}

// dial connects a caller to a node and sends a call.
func (s *stage) dial(n *nodetest.Node, body string) caller {
	s.t.Helper()
	c, err := s.tryDial(n, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// tryDial is dial for a node that may not be there.
func (s *stage) tryDial(n *nodetest.Node, body string) (caller, error) {
	c, err := s.Net.Machine("caller.test").Process().Dial(context.Background(), "tcp", n.Machine.Name()+":80")
	if err != nil {
		return caller{}, err
	}
	_, err = c.Write([]byte("POST /proxy HTTP/1.1\r\nHost: node\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
	return caller{c, s}, err
}
