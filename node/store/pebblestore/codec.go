package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// recordVersion is the first byte of every record. A record is that byte, the value in CBOR with
// integer keys, and the order of its place in eight bytes. The order stands at the end because it is
// known only when the committer has its turn, after the rest was encoded.
const recordVersion = 1

// attempt is the record of an open attempt.
type attempt struct {
	Number    int   `cbor:"1,keyasint"`
	StartedAt int64 `cbor:"2,keyasint"` // Unix ms
	Direct    bool  `cbor:"3,keyasint,omitempty"`
}

// codec encodes and decodes records. It is safe for concurrent use.
type codec struct {
	enc cbor.UserBufferEncMode
	dec cbor.DecMode
}

func newCodec() (codec, error) {
	enc, err := cbor.EncOptions{}.UserBufferEncMode()
	if err != nil {
		return codec{}, err
	}
	// Answers of targets reach the records, and need not be UTF-8.
	dec, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: 1 << 20}.DecMode()
	if err != nil {
		return codec{}, err
	}
	return codec{enc: enc, dec: dec}, nil
}

// encode appends the record of v to buf.
func (c codec) encode(buf *bytes.Buffer, v any, order job.Order) error {
	buf.WriteByte(recordVersion)
	if err := c.enc.MarshalToBuffer(v, buf); err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	buf.Write(order.AppendKey(buf.AvailableBuffer()))
	return nil
}

// decode reads a record into v and returns its order.
func (c codec) decode(record []byte, v any) (job.Order, error) {
	if len(record) < 1+orderLen {
		return 0, fmt.Errorf("%w: record of %d bytes", errMalformed, len(record))
	}
	if record[0] != recordVersion {
		return 0, fmt.Errorf("%w: version %d, this program knows %d", errMalformed, record[0], recordVersion)
	}
	cut := len(record) - orderLen
	if err := c.dec.Unmarshal(record[1:cut], v); err != nil {
		return 0, fmt.Errorf("%w: %T: %w", errMalformed, v, err)
	}
	return job.Order(binary.BigEndian.Uint64(record[cut:])), nil
}
