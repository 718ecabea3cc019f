package job

import "unicode/utf8"

// Cut returns at most limit bytes of body, and whether that is less than all of it. A body that is
// UTF-8 text is cut between two characters.
func Cut(body []byte, limit int) (_ []byte, cut bool) {
	if len(body) <= limit {
		return body, false
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax && !utf8.RuneStart(body[end]) {
		end--
	}
	if !utf8.Valid(body[:end]) {
		end = limit // not text: every byte counts
	}
	return body[:end], true
}
