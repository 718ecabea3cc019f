package job

import (
	"crypto/sha256"
	"encoding/hex"
)

// LedgerEntry says of a job that it has ended, in the terms by which other systems know it.
type LedgerEntry struct {
	// Sequence tells entries of one store apart: a job that ended later has the higher one. There are gaps.
	Sequence Order `cbor:"-"`
	ID       ID    `cbor:"1,keyasint"`
	// KeyHash is Key.WireHash of the job.
	KeyHash string `cbor:"2,keyasint"`
	// UserHash is the SHA-256 of the user's id in lower-case hexadecimal; empty for a shared key, which is
	// nobody's own.
	UserHash   string `cbor:"3,keyasint,omitempty"`
	Status     Status `cbor:"4,keyasint"` // Completed or Failed
	RecordedAt int64  `cbor:"5,keyasint"` // when the job ended, in Unix ms
	// Rerun: the job ran a finished one again, and has no claim on the key.
	Rerun bool `cbor:"6,keyasint,omitzero"`
	// Payload is Request.Payload of the job in lower-case hexadecimal.
	Payload string `cbor:"7,keyasint,omitempty"`
}

// NewLedgerEntry returns the entry of a job that has ended in a state.
func NewLedgerEntry(j *Job, s State, sequence Order) LedgerEntry {
	key, payload := j.Request.Key(), j.Request.Payload()
	e := LedgerEntry{
		Sequence: sequence, ID: j.ID, KeyHash: key.WireHash(), Status: s.Status, RecordedAt: s.EndedAt,
		Rerun: !j.RedriveOf.IsZero(), Payload: hex.EncodeToString(payload[:]),
	}
	if key.Scope == ScopeUser {
		sum := sha256.Sum256([]byte(key.UserID))
		e.UserHash = hex.EncodeToString(sum[:])
	}
	return e
}
