package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxBody bounds a message of this harness; nothing here sends more.
const maxBody = 16 << 20

var errFraming = errors.New("message has no Content-Length framing")

// message is an HTTP/1.1 request or response, as much of it as the harness looks at. It is read into
// again and again, so what it holds is valid until the next read.
//
// The harness shares its cores with what it measures. net/http would cost it about 55 µs a job, this
// about a third; so it knows only messages with a Content-Length, which is what a job's call has.
type message struct {
	start   []byte // request or status line
	body    []byte
	job     uint64 // of X-Aqueduct-Job-Id
	attempt uint16 // of X-Aqueduct-Attempt
	last    bool   // Connection: close

	length  int
	chunked bool
}

func (m *message) read(r *bufio.Reader) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	m.start = append(m.start[:0], line...)
	m.job, m.attempt, m.last, m.length, m.chunked = 0, 0, false, 0, false
	for {
		line, err := readLine(r)
		if err != nil {
			return unexpected(err)
		}
		if len(line) == 0 {
			break
		}
		if err := m.header(line); err != nil {
			return err
		}
	}
	if m.chunked {
		return errFraming
	}
	m.body = append(m.body[:0], make([]byte, m.length)...)
	if _, err := io.ReadFull(r, m.body); err != nil {
		return unexpected(err)
	}
	return nil
}

func (m *message) header(line []byte) error {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found {
		return fmt.Errorf("header line without a colon: %q", line)
	}
	value = bytes.TrimSpace(value)
	switch {
	case is(name, "Content-Length"):
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n > maxBody {
			return fmt.Errorf("content length %q is not between 0 and %d", value, maxBody)
		}
		m.length = n
	case is(name, "X-Aqueduct-Job-Id"):
		m.job = idTail(value)
	case is(name, "X-Aqueduct-Attempt"):
		n, err := strconv.ParseUint(string(value), 10, 16)
		if err != nil {
			return fmt.Errorf("attempt %q is no number", value)
		}
		m.attempt = uint16(n)
	case is(name, "Connection"):
		m.last = is(value, "close")
	case is(name, "Transfer-Encoding"):
		m.chunked = true
	}
	return nil
}

// status is the status of a response, 0 if the first line is none.
func (m *message) status() int {
	_, rest, _ := bytes.Cut(m.start, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.Atoi(string(code))
	if err != nil {
		return 0
	}
	return n
}

// path is the path of a request.
func (m *message) path() []byte {
	_, rest, _ := bytes.Cut(m.start, []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	return path
}

func is(got []byte, want string) bool {
	return len(got) == len(want) && bytes.EqualFold(got, []byte(want))
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// idTail reads the last 16 hexadecimal digits of a job id; 0 if they are none.
func idTail(id []byte) uint64 {
	if len(id) < 16 {
		return 0
	}
	var n uint64
	for _, c := range id[len(id)-16:] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0
		}
	}
	return n
}

// field returns the text value of a field of a flat JSON object whose values need no unescaping.
func field(object []byte, name string) []byte {
	_, rest, found := bytes.Cut(object, []byte(`"`+name+`"`))
	if !found {
		return nil
	}
	rest = bytes.TrimLeft(rest, ": \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return nil
	}
	value, _, found := bytes.Cut(rest[1:], []byte(`"`))
	if !found {
		return nil
	}
	return value
}
