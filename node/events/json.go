package events

import (
	"bytes"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns the data on one line, keys in alphabetical order, escaped so that it may stand in HTML.
func (e Event) JSON() ([]byte, error) { return e.marshal(e.Data) }

func (e Event) marshal(v any) ([]byte, error) {
	// A reason may quote bytes of a peer; they must not break the stream.
	b, err := json.Marshal(v, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("data of event %s: %w", e.Name, err)
	}
	return b, nil
}

// pieceSize is how many bytes of a body are encoded at a time; each can become six.
const pieceSize = 64 << 10

// noBody is how a body that is empty stands in the JSON.
const noBody = `"body":""`

// Pieces yields what JSON returns piece by piece: of a large body, which all listeners of a job share, each of
// them needs no copy of its own. It ends with the first error.
func (e Event) Pieces() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		body, frame := e.split()
		b, err := e.marshal(frame)
		// No text stands before the body, so the first match is the key.
		at := bytes.Index(b, []byte(noBody)) + len(noBody) - 1
		if err != nil || body == "" || at < len(noBody)-1 {
			yield(b, err)
			return
		}
		if !yield(b[:at], nil) {
			return
		}
		for body != "" {
			n := wholeRunes(body, pieceSize)
			piece, err := e.marshal(body[:n])
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(piece[1:len(piece)-1], nil) { // without the quotes
				return
			}
			body = body[n:]
		}
		yield(b[at:], nil)
	}
}

// split returns the body that the data carries, and the data without it.
func (e Event) split() (body string, frame any) {
	switch d := e.Data.(type) {
	case CompletedData:
		body, d.Body = d.Body, ""
		return body, d
	case FailedData:
		body, d.Body = d.Body, ""
		return body, d
	default:
		return "", d
	}
}

// wholeRunes returns how many of the first limit bytes of s do not cut a character at their end.
func wholeRunes(s string, limit int) int {
	if len(s) <= limit {
		return len(s)
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return limit // it is no text
}
