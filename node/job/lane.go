package job

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tenant tells apart the callers that share a target: a hash of the user and the API key that the
// user's job carries. The zero Tenant stands for all that share one queue.
type Tenant [16]byte

// TenantOf returns the tenant of a request. The API key is the value of the first of the headers
// Authorization, X-Api-Key and Api-Key that is not empty, in that order and in any case.
func TenantOf(r *Request) Tenant {
	var key string
	for _, name := range [...]string{"Authorization", "X-Api-Key", "Api-Key"} {
		if key == "" {
			key, _ = r.Header(name)
		}
	}
	return tenant(r.UserID, key)
}

// TenantOfUser returns the tenant of a user's deliveries, which carry no API key.
func TenantOfUser(userID string) Tenant { return tenant(userID, "") }

func tenant(userID, key string) Tenant {
	var buf [hashed]byte
	sum := sha256.Sum256(appendExact(buf[:0], userID, key))
	return Tenant(sum[:16])
}

// Lane is where a job waits: in first-in, first-out order behind the other jobs of its tenant for
// the same target.
type Lane struct {
	// Target is where the job's URL leads, see TargetOf.
	Target string `cbor:"1,keyasint"`
	Tenant Tenant `cbor:"2,keyasint"`
}

// Order is a place in a lane. Orders of one store only grow: a job's entry that is committed later
// has the higher one, also when another lane is concerned.
type Order uint64

// AppendKey appends the order so that its bytes sort like the orders do.
func (o Order) AppendKey(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(o)) }

// Line is the kind of work that waits.
type Line uint8

const (
	// Calls are jobs that wait to be sent to their target.
	Calls Line = 1
	// Deliveries are finished jobs whose result is owed to a webhook.
	Deliveries Line = 2
)

// String returns the line's name in logs and metrics.
func (l Line) String() string {
	switch l {
	case Calls:
		return "calls"
	case Deliveries:
		return "deliveries"
	default:
		return "unknown"
	}
}

// Entry is a job's place in a lane.
type Entry struct {
	Lane  Lane
	Order Order
	ID    ID
}
