package egress

import "time"

const (
	// smallRequest is what a connection takes without waiting for the target to read. The target of a
	// larger request may answer, and read no more, while most of it is still to be written.
	smallRequest = 32 << 10
	// keptBuffer is the largest buffer that is kept for the next request.
	keptBuffer = 64 << 10
)

// send writes the request, whose head is in out, in one go. One that is not small is written by a
// goroutine, so that its answer can be read meanwhile.
func (e *exchange) send(out *[]byte) error {
	body := e.attempt.request.Body
	if len(*out)+len(body) <= smallRequest {
		*out = append(*out, body...)
		_, err := e.link.Write(*out)
		e.links.recycle(out)
		return err
	}
	done := make(chan error, 1)
	e.upload = done
	go func() {
		_, err := e.link.Write(*out)
		e.links.recycle(out)
		if err == nil {
			_, err = e.link.Write(body)
		}
		done <- err
		close(done)
	}()
	return nil
}

// recycle keeps a buffer for another request.
func (s *links) recycle(out *[]byte) {
	if cap(*out) <= keptBuffer {
		s.buffers.Put(out)
	}
}

// writeWait is for how long a complete answer waits for its request to be written. The target has read
// all of it then, and only the writer has to notice; or it has stopped reading.
const writeWait = 50 * time.Millisecond

// sent reports whether the request is written.
func (e *exchange) sent() bool {
	if e.upload == nil {
		return true
	}
	select {
	case err := <-e.upload:
		return err == nil
	default:
	}
	patience := time.NewTimer(writeWait)
	defer patience.Stop()
	select {
	case err := <-e.upload:
		return err == nil
	case <-patience.C:
		return false
	}
}
