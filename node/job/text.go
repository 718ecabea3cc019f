package job

import (
	"encoding/base64"
	"unicode/utf8"
)

// EncodingBase64 is the body_encoding of a body that is not text; text has none.
const EncodingBase64 = "base64"

// Text returns a body as it stands in JSON: as it is when it is UTF-8, else in standard base64 with
// the encoding EncodingBase64. cut says that body is the start of a longer one: a character that was
// cut in two is then left out of the text.
func Text(body []byte, cut bool) (text, encoding string) {
	whole := body
	if cut {
		whole = body[:len(body)-halfRune(body)]
	}
	if utf8.Valid(whole) {
		return string(whole), ""
	}
	return base64.StdEncoding.EncodeToString(body), EncodingBase64
}

// Shown is a body as it stands in JSON, in each place where one does.
type Shown struct {
	Body          string `json:"body"`
	BodyEncoding  string `json:"body_encoding,omitzero"`  // see Text
	BodyTruncated bool   `json:"body_truncated,omitzero"` // Body is only the start of it
}

// Show returns the body of an answer as it is shown, nothing for the nil Result. payload is the whole
// body if the one in r is cut and the whole one is at hand, else nil.
func (r *Result) Show(payload []byte) Shown {
	if r == nil {
		return Shown{}
	}
	body, cut := r.Body, r.Truncated || r.Partial
	if payload != nil {
		body, cut = payload, r.Partial
	}
	text, encoding := Text(body, cut)
	return Shown{Body: text, BodyEncoding: encoding, BodyTruncated: cut}
}

// ResponseStatus is the HTTP status of the answer that decided; 0 if none did.
func (s State) ResponseStatus() int {
	if s.Result == nil {
		return 0
	}
	return s.Result.Status
}

// halfRune is how many bytes at the end of b are the start of a character that does not end there.
func halfRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
