package nodetest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Reply is what a Server does with one request. The zero Reply is 200 without a body; each method
// returns a Reply that differs in one way.
type Reply struct {
	status int // 0: 200
	header []string
	body   string
	raw    string        // sent in place of all of the above, if it is not empty
	length int           // announced in place of the body's, if announce is set
	wait   time.Duration // before the first byte
	pause  time.Duration // before each byte

	announce bool
	ending   ending
	after    int // bytes of the answer before a bad ending
}

// ending is what becomes of the connection.
type ending uint8

const (
	keeps      ending = iota // it waits for the next request
	hangs                    // nothing more is sent or read
	closes                   // it is closed
	resets                   // it is reset
	closesNext               // it is closed when the next request comes, unread
)

// Status answers with a status and no body.
func Status(code int) Reply { return Reply{status: code} }

// Text answers 200 with a body of plain text.
func Text(body string) Reply { return Reply{body: body}.With("Content-Type", "text/plain") }

// Raw sends these bytes, whether or not they are HTTP, and closes the connection.
func Raw(bytes string) Reply { return Reply{raw: bytes}.CloseAfter(len(bytes)) }

// Hang reads the request and never answers.
func Hang() Reply { return Reply{}.HangAfter(0) }

// Reset reads the request and resets the connection.
func Reset() Reply { return Reply{}.ResetAfter(0) }

// With adds a header.
func (r Reply) With(name, value string) Reply {
	r.header = append(slices.Clip(r.header), name, value)
	return r
}

// Body sets the body.
func (r Reply) Body(body string) Reply {
	r.body = body
	return r
}

// Late answers after a while.
func (r Reply) Late(wait time.Duration) Reply {
	r.wait = wait
	return r
}

// Trickle sends one byte after another, each after a pause.
func (r Reply) Trickle(pause time.Duration) Reply {
	r.pause = pause
	return r
}

// Announce sends a Content-Length that is not the body's.
func (r Reply) Announce(length int) Reply {
	r.length, r.announce = length, true
	return r
}

// HangAfter stops after so many bytes of the answer, without closing the connection.
func (r Reply) HangAfter(n int) Reply { return r.endWith(hangs, n) }

// CloseAfter closes the connection after so many bytes of the answer.
func (r Reply) CloseAfter(n int) Reply { return r.endWith(closes, n) }

// ResetAfter resets the connection once the client has read so many bytes of the answer.
func (r Reply) ResetAfter(n int) Reply { return r.endWith(resets, n) }

// CloseOnNext answers, and closes the connection at the moment when the next request is written to it.
func (r Reply) CloseOnNext() Reply { return r.endWith(closesNext, 0) }

func (r Reply) endWith(e ending, n int) Reply {
	r.ending, r.after = e, n
	return r
}

// bytes is the answer as far as it is sent.
func (r Reply) bytes() string {
	text := r.raw
	if text == "" {
		text = r.message()
	}
	if r.ending == hangs || r.ending == closes || r.ending == resets {
		return text[:min(r.after, len(text))]
	}
	return text
}

// message is the answer in HTTP.
func (r Reply) message() string {
	code := r.status
	if code == 0 {
		code = http.StatusOK
	}
	h := make(http.Header)
	for pair := range slices.Chunk(r.header, 2) {
		h.Add(pair[0], pair[1])
	}
	length := len(r.body)
	if r.announce {
		length = r.length
	}
	if code/100 != 1 && code != http.StatusNoContent && code != http.StatusNotModified {
		h.Set("Content-Length", fmt.Sprint(length))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", code, http.StatusText(code))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	return b.String() + "\r\n" + r.body
}
