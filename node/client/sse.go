package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// frame is one event as it came over the wire.
type frame struct {
	id, name string
	data     []byte
}

// decoder reads a stream of server-sent events as the HTML standard describes them: lines end with
// CR, LF or both, and may have any length as long as an event is not larger than the limit.
// One goroutine owns it.
type decoder struct {
	r     *bufio.Reader
	limit int
	// id is that of the last event that came whole, and retry what the server last asked for; 0 if it
	// did not. They outlive the stream.
	id    string
	retry time.Duration

	begun  bool // the byte order mark, if any, is behind us
	skipLF bool // the line ended with CR: an LF that follows belongs to it
	size   int  // bytes of the event so far
	name   string
	data   []byte
}

// errTooLarge is what an event over the limit ends its stream with.
var errTooLarge = errors.New("event is too large")

func newDecoder(limit int) *decoder {
	return &decoder{r: bufio.NewReaderSize(nil, 16<<10), limit: limit}
}

// attach starts with another stream.
func (d *decoder) attach(r io.Reader) {
	d.r.Reset(r)
	d.begun, d.skipLF = false, false
	d.reset()
}

// next returns the next event. An event that the end of the stream cuts short is no event; its id
// does not count either.
func (d *decoder) next() (frame, error) {
	id := d.id
	for {
		line, err := d.line()
		if err != nil {
			d.reset()
			return frame{}, err
		}
		if len(line) > 0 {
			d.field(line, &id)
			continue
		}
		d.id = id
		f := frame{id: id, name: d.name, data: d.data}
		d.reset()
		if f.data != nil {
			return f, nil
		}
	}
}

func (d *decoder) reset() { d.size, d.name, d.data = 0, "", nil }

// field takes one line of an event.
func (d *decoder) field(line []byte, id *string) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		d.name = string(value)
	case "data":
		if d.data != nil {
			d.data = append(d.data, '\n')
		}
		d.data = append(d.data, value...)
		if d.data == nil {
			d.data = []byte{} // an empty line is data too
		}
	case "id":
		if !bytes.ContainsRune(value, 0) {
			*id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			d.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// line returns the next line without its end. It is valid until the next call.
func (d *decoder) line() ([]byte, error) {
	var long []byte // a line that does not fit the reader's buffer
	for {
		if err := d.skip(); err != nil {
			return nil, err
		}
		chunk, _ := d.r.Peek(d.r.Buffered())
		at := bytes.IndexAny(chunk, "\r\n")
		piece := chunk[:max(at, 0)]
		if at < 0 {
			piece = chunk
		}
		if d.size += len(piece); d.size > d.limit {
			return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, d.limit)
		}
		if at < 0 || long != nil {
			long = append(long, piece...)
		}
		_, _ = d.r.Discard(len(piece)) // what was peeked at is there
		if at < 0 {
			continue
		}
		d.skipLF = chunk[at] == '\r'
		_, _ = d.r.Discard(1)
		if long != nil {
			return long, nil
		}
		return piece, nil
	}
}

// skip waits for a byte of a line, and passes over what belongs to none.
func (d *decoder) skip() error {
	if !d.begun {
		d.begun = true
		if mark := []byte("\ufeff"); d.starts(mark) {
			_, _ = d.r.Discard(len(mark))
		}
	}
	if d.skipLF {
		_, err := d.r.Peek(1)
		if err != nil {
			return err
		}
		if d.skipLF = false; d.starts([]byte("\n")) {
			_, _ = d.r.Discard(1)
		}
	}
	_, err := d.r.Peek(1)
	return err
}

func (d *decoder) starts(with []byte) bool {
	b, _ := d.r.Peek(len(with)) // too short, it does not
	return bytes.Equal(b, with)
}
