package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// ID names a job. It is 16 bytes: 48 bits of Unix milliseconds, 24 bits that tell the node that
// accepted the job, and 56 random bits. Ids sort by the time of acceptance, to the millisecond.
type ID [16]byte

// ParseID reads the 32 lower-case hexadecimal digits that String writes.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("job id must be 32 hexadecimal digits, got %d characters", len(s))
	}
	for i := range s {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ID{}, fmt.Errorf("job id must be 32 hexadecimal digits, got %q at %d", c, i)
		}
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err
}

// String returns 32 lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names no job.
func (id ID) IsZero() bool { return id == ID{} }

// Time is when the job was accepted, to the millisecond.
func (id ID) Time() time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// NodeTag tells the node that made the id.
func (id ID) NodeTag() NodeTag { return NodeTag(id[6:9]) }

// NodeTag is the part of an id that tells which node made it.
type NodeTag [3]byte

// TagOf returns the tag of a node: the first 24 bits of the SHA-256 of its id.
func TagOf(nodeID string) NodeTag {
	sum := sha256.Sum256([]byte(nodeID))
	return NodeTag(sum[:3])
}

// IDs makes ids for one node. It is safe for concurrent use if Rand is.
type IDs struct {
	Tag NodeTag
	// Rand is the source of the random part, normally crypto/rand.Reader.
	Rand io.Reader
}

// New returns an id of the time now. It fails only if the random source does.
func (g IDs) New(now time.Time) (ID, error) {
	var id ID
	ms := now.UnixMilli()
	for i := 5; i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	copy(id[6:9], g.Tag[:])
	if _, err := io.ReadFull(g.Rand, id[9:]); err != nil {
		return ID{}, fmt.Errorf("random part of a job id: %w", err)
	}
	return id, nil
}

// MarshalText is String, for logs and JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }
