package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Scope says among whom an idempotency key is unique.
type Scope uint8

const (
	// ScopeUser: the key is unique for one user.
	ScopeUser Scope = iota
	// ScopeShared: the key is unique for everybody.
	ScopeShared
)

// Key is what makes a job the same job: at most one unfinished or remembered job has it.
type Key struct {
	Scope  Scope
	UserID string // empty for ScopeShared
	Name   string // the caller's idempotent_key
}

// KeyHash identifies a Key inside a node.
type KeyHash [32]byte

// Hash returns the identity of the pair (user, name). Unlike the joined hash of the wire, no two
// different pairs share it.
func (k Key) Hash() KeyHash {
	var buf [hashed]byte
	return sha256.Sum256(appendExact(append(buf[:0], byte(k.Scope)), k.UserID, k.Name))
}

// WireHash returns the hash by which other systems know the key, in lower-case hexadecimal:
// sha256(user_id ":" idempotent_key), or sha256("shared" NUL idempotent_key).
func (k Key) WireHash() string {
	joined := k.UserID + ":" + k.Name
	if k.Scope == ScopeShared {
		joined = "shared\x00" + k.Name
	}
	sum := sha256.Sum256([]byte(joined))
	return hex.EncodeToString(sum[:])
}

// PayloadHash tells whether two requests ask for the same call.
type PayloadHash [16]byte

// Payload returns the hash of what a request sends: method, URL or pool, headers and body. Header
// order and the case of header names do not count; every byte of the body does.
func (r *Request) Payload() PayloadHash {
	var buf [4 * hashed]byte
	b := appendExact(buf[:0], r.Method, r.URL, r.PoolID, strconv.Itoa(len(r.Headers)))
	for _, hd := range r.Headers {
		b = appendExact(b, canonical(hd.Name), hd.Value)
	}
	sum := sha256.Sum256(append(b, r.Body...))
	return PayloadHash(sum[:16])
}

// hashed is how many bytes most identities have; longer ones cost an allocation.
const hashed = 256

// appendExact appends each part after its length, so that ("a", "bc") and ("ab", "c") differ.
func appendExact(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}
