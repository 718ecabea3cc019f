package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind says where an event was seen.
type kind uint8

const (
	called    kind = 1 // the target got a call
	delivered kind = 2 // the receiver got a webhook
)

// Flags of an event.
const (
	altered   uint8 = 1 << iota // the body is not what was sent, or the job id is missing
	jobFailed                   // the webhook reports a failed job
)

// event is what a sink saw of one job.
type event struct {
	kind    kind
	flags   uint8
	attempt uint16 // 0 if the dispatcher does not number its attempts
	seq     uint32 // which job of the run
	at      int64  // ns of the shared clock
	job     uint64 // the last 16 digits of the job id; 0 if there was none
}

const eventSize = 24

func (e event) append(b []byte) []byte {
	b = append(b, byte(e.kind), e.flags)
	b = binary.LittleEndian.AppendUint16(b, e.attempt)
	b = binary.LittleEndian.AppendUint32(b, e.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.at))
	return binary.LittleEndian.AppendUint64(b, e.job)
}

func decodeEvent(b []byte) event {
	return event{
		kind:    kind(b[0]),
		flags:   b[1],
		attempt: binary.LittleEndian.Uint16(b[2:]),
		seq:     binary.LittleEndian.Uint32(b[4:]),
		at:      int64(binary.LittleEndian.Uint64(b[8:])),
		job:     binary.LittleEndian.Uint64(b[16:]),
	}
}

// readEvents calls see for each event of r until r ends. An event cut off by the end is dropped.
func readEvents(r io.Reader, see func(event)) error {
	buf := make([]byte, 0, 64*1024/eventSize*eventSize)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole := len(buf) / eventSize * eventSize
		for at := 0; at < whole; at += eventSize {
			see(decodeEvent(buf[at : at+eventSize]))
		}
		buf = buf[:copy(buf, buf[whole:])]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events of the sinks: %w", err)
		}
	}
}
