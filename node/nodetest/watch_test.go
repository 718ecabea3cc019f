package nodetest_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// told is one event, or a comment, as it stands in a stream.
type told struct {
	id, name, data string
	comment        string
	retry          string
}

// bytes returns the body that an event carries.
func (e told) bytes(t *testing.T) []byte {
	t.Helper()
	var d struct {
		Body         string `json:"body"`
		BodyEncoding string `json:"body_encoding"`
	}
	if err := json.Unmarshal([]byte(e.data), &d); err != nil {
		t.Errorf("event %+v: %v", e, err)
	}
	return decoded(t, d.Body, d.BodyEncoding)
}

// watch follows a job to its end with the client, and returns the last event.
func (s *stage) watch(id string) told {
	s.t.Helper()
	var last client.Event
	for e, err := range s.node.Client().Watch(s.t.Context(), id, "") {
		if err != nil {
			s.t.Fatalf("watch: %v", err)
		}
		last = e
	}
	return told{id: last.ID, name: last.Name, data: string(last.Data)}
}

// stream is a stream that is read line by line, as it comes.
type stream struct {
	status int
	header http.Header
	r      *bufio.Reader
	close  func()
}

// open asks for the stream of a job.
func (s *stage) open(id string, headers ...string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.node.URL()+"/jobs/"+id+"/stream", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.Transport(fmt.Sprintf("watcher-%s.test", id)).RoundTrip(req)
	if err != nil {
		s.t.Fatalf("stream: %v", err)
	}
	return &stream{
		status: resp.StatusCode, header: resp.Header, r: bufio.NewReader(resp.Body),
		close: func() {
			cancel()
			_ = resp.Body.Close()
		},
	}
}

// next reads up to the next empty line; ok is false at the end of the stream.
func (st *stream) next() (e told, ok bool) {
	for {
		text, err := st.r.ReadString('\n')
		if err != nil {
			return e, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		switch name {
		case "":
			if value == "" {
				return e, true
			}
			e.comment = value
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "retry":
			e.retry = value
		}
	}
}

// rest reads to the end of the stream.
func (st *stream) rest() (list []told) {
	for {
		e, ok := st.next()
		if !ok {
			return list
		}
		list = append(list, e)
	}
}

// place is what a stream of a waiting job tells about its place first.
func (s *stage) place(id string) string {
	s.t.Helper()
	st := s.open(id)
	defer st.close()
	for {
		e, ok := st.next()
		if !ok {
			s.t.Fatal("the stream has ended before it told a place")
		}
		if e.name == "position" {
			return e.data
		}
	}
}

// names are those of events.
func names(list []told) string {
	var all []string
	for _, e := range list {
		if e.name != "" {
			all = append(all, e.name)
		}
	}
	return strings.Join(all, " ")
}
