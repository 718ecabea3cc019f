package egress

import (
	"io"
	"math"
	"net/http"
	"unicode/utf8"
)

const (
	firstRead = 512      // buffer for a body of unknown length
	freeBody  = 64 << 10 // most that is held, whatever a Content-Length says, before room is claimed
	// ModestBody is the room that is claimed first for a body of unknown length.
	ModestBody = 1 << 20
)

// ReadBody reads the body of an answer of Do and ends the exchange. It reads at most limit bytes,
// unless limit is negative; then truncated tells that there is more, and the connection is dropped.
// A text is cut at the end of a character. Every error is an *Error, or one of room; there is no body
// with it.
//
// room is asked before more than 64 KiB are held, and may wait: the target waits with it. bytes is what
// the body may come to: what it has announced, else ModestBody, and the limit once it has turned out
// larger. nil leaves the body to grow by itself.
func ReadBody(resp *http.Response, limit int64, room func(bytes int64) error) (body []byte, truncated bool, err error) {
	// What an early Close reports does not matter: the answer stands, or its error is known.
	defer func() { _ = resp.Body.Close() }()
	if resp.Body == http.NoBody {
		return nil, false, nil
	}
	r := bodyReader{Response: resp, stop: math.MaxInt64, room: room}
	switch {
	case limit >= 0 && resp.ContentLength > limit:
		r.stop = limit
	case limit >= 0 && limit < math.MaxInt64:
		r.stop = limit + 1
	}
	body, err = r.read()
	if err != nil {
		return nil, false, err
	}
	if limit < 0 || (int64(len(body)) <= limit && resp.ContentLength <= limit) {
		return body, false, nil
	}
	return wholeRunes(body[:min(limit, int64(len(body)))]), true, nil
}

// bodyReader reads a body into one buffer.
type bodyReader struct {
	*http.Response
	stop int64 // how many bytes settle the matter
	room func(bytes int64) error
}

// read reads to the end, or until it has enough.
func (r *bodyReader) read() ([]byte, error) {
	size := int64(firstRead)
	if r.ContentLength >= 0 {
		size = min(r.ContentLength, freeBody) + 1 // one more, for the read that finds the end
	}
	body := make([]byte, 0, min(size, r.stop))
	for int64(len(body)) < r.stop {
		if len(body) == cap(body) {
			var err error
			if body, err = r.grow(body); err != nil {
				return nil, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// grow returns body in a larger buffer, once there is room for it: twice as large, or as large as has
// been announced, since that much is then ours.
func (r *bodyReader) grow(body []byte) ([]byte, error) {
	most, next := r.stop, 2*int64(cap(body))
	if r.ContentLength >= 0 {
		most = min(most, r.ContentLength+1)
	}
	if next > freeBody && r.room != nil {
		claim := most
		if r.ContentLength < 0 && next <= ModestBody {
			claim = min(most, ModestBody)
		}
		if err := r.room(claim); err != nil {
			return nil, err
		}
		if r.ContentLength >= 0 {
			next = most
		}
	}
	return append(make([]byte, 0, min(next, most)), body...), nil
}

// wholeRunes removes the incomplete last character of a text. What is no text stays as it is.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if start := len(b) - i; utf8.RuneStart(b[start]) {
			if !utf8.FullRune(b[start:]) && utf8.Valid(b[:start]) {
				return b[:start]
			}
			return b
		}
	}
	return b
}
