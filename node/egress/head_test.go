package egress

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// heads are the beginnings of answers, and whether they are usual.
var heads = map[string]bool{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: x\r\nContent-Length: 2\r\n\r\nok":     true,
	"HTTP/1.1 503 Service Unavailable\r\ncontent-length:0\r\nretry-after: \t7 \r\n\r\n":               true,
	"HTTP/1.1 200\r\nContent-Length: 3\r\nConnection: keep-alive\r\nX-Empty:\r\n\r\nok":               true,
	"HTTP/1.1 200  OK \r\nX-\xff: 1\r\nContent-Length: 2\r\n\r\nok":                                   false,
	"HTTP/1.1 200 OK\r\nX: \xff\r\nContent-Length: 2\r\n\r\nok":                                       true,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r":                                                      false,
	"HTTP/1.1 200 OK\r\n\r\nto the end":                                                               false,
	"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok":                                          false,
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n":                                          false,
	"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n":                                              false,
	"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok":                                                 false,
	"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok":                                                 false,
	"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok":                                                  false,
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                  false,
	"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok":                                                    false,
	"HTTP/1.1 200 OK\r\nA: b\n\nContent-Length: 2\r\n\r\nok":                                          false,
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok":                                    false,
	"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 2\r\n\r\nok":                                         false,
	"HTTP/1.1 200 OK\r\nA\r\nContent-Length: 2\r\n\r\nok":                                             false,
	"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 2\r\n\r\nok":                                           false,
	"HTTP/1.1 200 OK\r\nA: b\r\r\nContent-Length: 2\r\n\r\nok":                                        false,
	"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 2\r\n\r\nok":                false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok":                             false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":             false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok":                             false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: X\r\n\r\nok":                                    false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nPragma: no-cache\r\n\r\nok":                              false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok":                                               false,
	"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok":                                                 false,
	"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nok":                                false,
	"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok":                                                    false,
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: " + strings.Repeat("x", readBufferBytes) + "\r\n\r\n": false,
}

// arrived has read what it can of an answer.
func arrived(answer []byte) *bufio.Reader {
	in := bufio.NewReaderSize(bytes.NewReader(answer), readBufferBytes)
	_, _ = in.Peek(1)
	return in
}

func TestWhichHeadsAreUsual(t *testing.T) {
	for answer, want := range heads {
		in := arrived([]byte(answer))
		if got := usualHead(in) != nil; got != want {
			t.Errorf("%q is usual: %v", answer, got)
		}
		if rest, err := io.ReadAll(in); !want && (err != nil || string(rest) != answer) {
			t.Errorf("of %q only %q is left, %v", answer, rest, err)
		}
	}
}

// FuzzUsualHead holds that a usual head means what it means to net/http, and so does what follows it.
func FuzzUsualHead(f *testing.F) {
	for answer := range heads {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		got := usualHead(arrived(answer))
		if got == nil {
			return
		}
		want, err := http.ReadResponse(arrived(answer), nil)
		if err != nil {
			t.Fatalf("%q is read although %v", answer, err)
		}
		body, err := io.ReadAll(got.Body)
		wantBody, wantErr := io.ReadAll(want.Body)
		if string(body) != string(wantBody) || err != wantErr {
			t.Fatalf("the body of %q is %q, %v, want %q, %v", answer, body, err, wantBody, wantErr)
		}
		if got.Body, want.Body = nil, nil; !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is\n%+v, want\n%+v", answer, got, want)
		}
	})
}
