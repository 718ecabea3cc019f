package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// One keyspace. The first byte of a key tells what it is; DESIGN.md has the table. Numbers in keys are
// big-endian, so that keys sort as the numbers do.
const (
	kindAttempt  byte = 'a' // id -> the attempt that is open
	kindDue      byte = 'd' // ms, store.DueKind, id -> lane: retries
	kindFlushed  byte = 'f' // id -> nothing: its entry in the ledger was flushed
	kindLedger   byte = 'g' // sequence -> entry of the ledger
	kindJob      byte = 'j' // id -> job, as accepted
	kindKey      byte = 'k' // key hash -> holder
	kindLane     byte = 'l' // line, tenant, target, 0, order -> id
	kindMeta     byte = 'm' // name -> number
	kindOverride byte = 'o' // host -> operator's order
	kindPayload  byte = 'p' // id -> whole body of an answer
	kindState    byte = 's' // id -> state; absent until an attempt has ended
	kindDeadline byte = 't' // ms, id -> nothing
	kindUser     byte = 'u' // user hash, id -> nothing
	kindWebhook  byte = 'w' // id -> unsettled delivery; absent until it was tried
	kindExpiry   byte = 'x' // ms, id -> settled delivery, and when its job expires
)

const (
	idLen     = len(job.ID{})
	tenantLen = len(job.Tenant{})
	orderLen  = 8
	timeLen   = 8
	userLen   = 16 // of the hash
)

// metaVersion, metaOrders and metaCut name the format version, the order below which all orders may have
// been given out, and where the batch of the ledger ends that is being flushed.
const (
	metaVersion = "version"
	metaOrders  = "orders"
	metaCut     = "cut"
)

func appendID(b []byte, kind byte, id job.ID) []byte { return append(append(b, kind), id[:]...) }

func appendTimed(b []byte, kind byte, ms int64, id job.ID) []byte {
	b = binary.BigEndian.AppendUint64(append(b, kind), uint64(max(ms, 0)))
	return append(b, id[:]...)
}

func appendDue(b []byte, ms int64, kind byte, id job.ID) []byte {
	b = binary.BigEndian.AppendUint64(append(b, kindDue), uint64(max(ms, 0)))
	return append(append(b, kind), id[:]...)
}

func appendKey(b []byte, hash job.KeyHash) []byte { return append(append(b, kindKey), hash[:]...) }

// appendSequence makes the key of an entry in the ledger.
func appendSequence(b []byte, sequence job.Order) []byte {
	return sequence.AppendKey(append(b, kindLedger))
}

func appendUser(b []byte, userID string, id job.ID) []byte {
	hash := sha256.Sum256([]byte(userID))
	return append(append(append(b, kindUser), hash[:userLen]...), id[:]...)
}

// appendLanePrefix is what the keys of all places of a lane begin with.
func appendLanePrefix(b []byte, line job.Line, lane job.Lane) []byte {
	return appendLane(append(b, kindLane, byte(line)), lane)
}

func appendPlace(b []byte, line job.Line, lane job.Lane, order job.Order) []byte {
	return order.AppendKey(appendLanePrefix(b, line, lane))
}

// appendLane puts the tenant first: it tells lanes apart sooner than the beginnings of their targets do.
func appendLane(b []byte, lane job.Lane) []byte {
	b = append(append(b, lane.Tenant[:]...), lane.Target...)
	return append(b, 0)
}

// laneReader reads lanes from keys and values. It keeps the last target, so that a run of equal ones
// costs one string.
type laneReader struct{ target string }

func (r *laneReader) lane(b []byte) (job.Lane, bool) {
	end := len(b) - 1
	if end < tenantLen || b[end] != 0 {
		return job.Lane{}, false
	}
	if string(b[tenantLen:end]) != r.target {
		r.target = string(b[tenantLen:end])
	}
	return job.Lane{Target: r.target, Tenant: job.Tenant(b[:tenantLen])}, true
}

// entry reads a place from its key and value.
func (r *laneReader) entry(key, value []byte) (job.Entry, bool) {
	if len(key) < 2+orderLen || len(value) != idLen {
		return job.Entry{}, false
	}
	cut := len(key) - orderLen
	lane, ok := r.lane(key[2:cut])
	return job.Entry{
		Lane: lane, Order: job.Order(binary.BigEndian.Uint64(key[cut:])), ID: job.ID(value),
	}, ok
}

// keyMS reads the time of a due, deadline or expiry key.
func keyMS(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[1:])) }

// keyID reads the id at the end of a key.
func keyID(key []byte) job.ID { return job.ID(key[len(key)-idLen:]) }

// after returns the smallest key behind all keys that begin with prefix, which must not be all 0xff.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
