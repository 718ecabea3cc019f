package api

import (
	"encoding/base64"
	"errors"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// A cursor is the last job that a page considered, behind a byte that tells the form. To callers it
// is opaque: the form may change, and a cursor of another form is refused, not guessed at.
const cursorForm = 1

var errCursor = errors.New("not a cursor of this node")

func cursorOf(last job.ID) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorForm}, last[:]...))
}

func parseCursor(s string) (job.ID, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != 1+len(job.ID{}) || raw[0] != cursorForm {
		return job.ID{}, errCursor
	}
	id := job.ID(raw[1:])
	// The decoder skips line breaks; a cursor has one spelling.
	if id.IsZero() || cursorOf(id) != s {
		return job.ID{}, errCursor
	}
	return id, nil
}
