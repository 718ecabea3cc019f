package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
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
	h := sha256.New()
	_, _ = h.Write([]byte{byte(k.Scope)})
	writeExact(h, k.UserID, k.Name)
	return KeyHash(h.Sum(nil))
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
	h := sha256.New()
	writeExact(h, r.Method, r.URL, r.PoolID, strconv.Itoa(len(r.Headers)))
	for _, hd := range r.Headers {
		writeExact(h, canonical(hd.Name), hd.Value)
	}
	_, _ = h.Write(r.Body)
	return PayloadHash(h.Sum(nil)[:16])
}

// writeExact writes each part after its length, so that ("a", "bc") and ("ab", "c") differ.
func writeExact(w io.Writer, parts ...string) {
	var n [binary.MaxVarintLen64]byte
	for _, p := range parts {
		_, _ = w.Write(n[:binary.PutUvarint(n[:], uint64(len(p)))])
		_, _ = io.WriteString(w, p)
	}
}
