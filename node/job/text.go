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
