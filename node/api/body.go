package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

const (
	// bodyTimeout bounds the time from a request's headers to the end of its body. Per-read timers
	// would let a client trickle for hours.
	bodyTimeout = time.Minute
	// firstRead fits most requests without growing.
	firstRead = 4 << 10
	// keptBuffer is the largest buffer that is kept for another request, so that a few large
	// bodies do not become memory for ever. Larger ones are reserved.
	keptBuffer = 64 << 10
)

func (f *face) buffer() *[]byte {
	if b, ok := f.bodies.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, firstRead)
	return &b
}

func (f *face) release(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		f.bodies.Put(b)
		return
	}
	f.Memory.Release(reserved(cap(*b)))
}

// reserved is what is reserved for a buffer.
func reserved(size int) int64 {
	if size <= keptBuffer {
		return 0
	}
	return int64(size)
}

// readBody reads the whole body of a request into b, which grows with what has arrived and never
// beyond the limit. Errors are faults.
func (f *face) readBody(w http.ResponseWriter, r *http.Request, b *[]byte) error {
	// A transport that has no deadlines has no trickling clients either.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	src := r.Body
	if f.MaxBodyBytes > 0 {
		if r.ContentLength > f.MaxBodyBytes {
			return f.tooLarge(r.ContentLength)
		}
		src = http.MaxBytesReader(w, src, f.MaxBodyBytes)
	}
	if err := f.readAll(src, b); err != nil {
		// The deadline stays: the server passes over the rest of the body before it closes.
		return f.bodyFault(err)
	}
	_ = rc.SetReadDeadline(time.Time{})
	return nil
}

func (f *face) readAll(src io.Reader, b *[]byte) error {
	for {
		if len(*b) == cap(*b) {
			if err := f.grow(b); err != nil {
				return err
			}
		}
		n, err := src.Read((*b)[len(*b):cap(*b)])
		*b = (*b)[:len(*b)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow makes a full buffer larger.
func (f *face) grow(b *[]byte) error {
	size := f.grown(cap(*b))
	if more := reserved(size) - reserved(cap(*b)); more > 0 {
		if err := f.Memory.Reserve(more); err != nil {
			return err
		}
	}
	*b = append(make([]byte, 0, size), *b...)
	return nil
}

// grown is the next size of a full buffer: twice as much, but for the last step, which leaves room
// to see that the body has ended.
func (f *face) grown(size int) int {
	if f.MaxBodyBytes > 0 && int64(size) <= f.MaxBodyBytes {
		return int(min(2*int64(size), f.MaxBodyBytes+1))
	}
	return 2 * size
}

func (f *face) bodyFault(err error) error {
	var large *http.MaxBytesError
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &large):
		return f.tooLarge(0)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(fault.Invalid, err, "the body must arrive within "+seconds(bodyTimeout)+" s")
	default:
		return fault.Wrap(fault.Invalid, err, "the body could not be read")
	}
}

// tooLarge refuses a body of so many bytes, 0 for one of which nobody has said how many it has.
func (f *face) tooLarge(size int64) error {
	e := fault.New(fault.TooLarge, "the body must not be larger than %d bytes", f.MaxBodyBytes)
	e.Limit = &fault.Limit{Reason: "body_bytes", Limit: f.MaxBodyBytes, Current: size}
	return e
}
