package egress

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var endOfHead = []byte("\r\n\r\n")

// readResponse is http.ReadResponse, but reads itself what usualHead does.
func readResponse(in *bufio.Reader, asked *http.Request) (*http.Response, error) {
	_, err := in.Peek(1)
	switch {
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case asked == nil:
		if resp := usualHead(in); resp != nil {
			return resp, nil
		}
	}
	return http.ReadResponse(in, asked)
}

// usualHead reads the head of an answer if it is like nearly all are: it came at once, it announces the length of its body, no
// field stands in it twice, and none asks for more than to be handed on. All else it returns nil for, and leaves it to
// net/http, which would understand the same but take several times as long.
func usualHead(in *bufio.Reader) *http.Response {
	came, _ := in.Peek(in.Buffered())
	end := bytes.Index(came, endOfHead)
	if end < 0 {
		return nil
	}
	line, fields, _ := strings.Cut(string(came[:end+len("\r\n")]), "\r\n")
	resp := usualStatus(line)
	if resp == nil || !readFields(resp, fields) {
		return nil
	}
	_, _ = in.Discard(end + len(endOfHead))
	if resp.Body = http.NoBody; resp.ContentLength > 0 {
		resp.Body = &measured{in, resp.ContentLength}
	}
	return resp
}

// usualStatus is the answer that begins with a status line; nil if its status is none after which a body comes.
func usualStatus(line string) *http.Response {
	const proto = "HTTP/1.1"
	status, ok := strings.CutPrefix(line, proto+" ")
	if !ok || len(status) < 3 || len(status) > 3 && status[3] != ' ' || strings.IndexByte(status, '\n') >= 0 {
		return nil
	}
	code, err := strconv.ParseUint(status[:3], 10, 10)
	if err != nil || code < http.StatusOK || code == http.StatusNoContent || code == http.StatusNotModified {
		return nil
	}
	return &http.Response{Status: status, StatusCode: int(code), Proto: proto, ProtoMajor: 1, ProtoMinor: 1}
}

// readFields reads the lines of a header into an answer, and reports whether they are usual.
func readFields(resp *http.Response, lines string) bool {
	n := strings.Count(lines, "\n")
	resp.Header, resp.ContentLength = make(http.Header, n), -1
	values := make([]string, n) // one for each field
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return false
		}
		name, value = http.CanonicalHeaderKey(name), strings.Trim(value, " \t")
		if _, twice := resp.Header[name]; twice || !usualField(resp, name, value) {
			return false
		}
		values[0] = value
		resp.Header[name], values = values[:1:1], values[1:]
	}
	return resp.ContentLength >= 0
}

// usualField takes note of what a field says about the answer, and reports whether it is understood.
func usualField(resp *http.Response, name, value string) bool {
	switch name {
	case "Content-Length":
		length, err := strconv.ParseUint(value, 10, 63)
		resp.ContentLength = int64(length)
		return err == nil
	case "Connection":
		return value == "keep-alive"
	case "Transfer-Encoding", "Trailer", "Pragma": // the last one net/http makes another field of
		return false
	default:
		return true
	}
}

// measured is a body of an announced length.
type measured struct {
	in   *bufio.Reader
	left int64
}

// Close does nothing: the exchange ends itself.
func (m *measured) Close() error { return nil }

// Read tells the end with the last bytes.
func (m *measured) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	n, err := m.in.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	switch {
	case err == io.EOF && m.left > 0: // before its time
		err = io.ErrUnexpectedEOF
	case err == nil && m.left == 0:
		err = io.EOF
	}
	return n, err
}
