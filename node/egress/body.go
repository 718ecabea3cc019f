package egress

import (
	"io"
	"net/http"
	"slices"
	"unicode/utf8"
)

const (
	firstRead   = 512      // buffer for a body of unknown length
	trustedRead = 64 << 10 // most that is allocated on the word of a Content-Length
)

// ReadBody reads the body of an answer of Do and ends the exchange. It reads at most limit bytes,
// unless limit is negative; then truncated tells that there is more, and the connection is dropped.
// A text is cut at the end of a character. Every error is an *Error; there is no body with it.
func ReadBody(resp *http.Response, limit int64) (body []byte, truncated bool, err error) {
	// What an early Close reports does not matter: the answer stands, or its error is known.
	defer func() { _ = resp.Body.Close() }()
	if resp.Body == http.NoBody {
		return nil, false, nil
	}
	stop := int64(-1) // how many bytes settle the matter
	switch {
	case limit >= 0 && resp.ContentLength > limit:
		stop = limit
	case limit >= 0:
		stop = limit + 1
	}
	body, err = read(resp, stop)
	if err != nil {
		return nil, false, err
	}
	if limit < 0 || (int64(len(body)) <= limit && resp.ContentLength <= limit) {
		return body, false, nil
	}
	return wholeRunes(body[:min(limit, int64(len(body)))]), true, nil
}

// read reads to the end, or until it has stop bytes if stop is not negative.
func read(resp *http.Response, stop int64) ([]byte, error) {
	size := int64(firstRead)
	if resp.ContentLength >= 0 {
		size = min(resp.ContentLength, trustedRead) + 1 // one more, for the read that finds the end
	}
	if stop >= 0 {
		size = min(size, stop)
	}
	body := make([]byte, 0, size)
	for {
		if stop >= 0 && int64(len(body)) >= stop {
			return body, nil
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, firstRead)
		}
		room := body[len(body):cap(body)]
		if stop >= 0 {
			room = room[:min(int64(len(room)), stop-int64(len(body)))]
		}
		n, err := resp.Body.Read(room)
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
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
