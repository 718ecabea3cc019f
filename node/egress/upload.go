package egress

import "time"

// smallRequest is what a connection takes without waiting for the target to read. The target of a larger
// request may answer, and read no more, while most of it is still to be written.
const smallRequest = 32 << 10

// send writes the request in one go. One that is not small is written by a goroutine, so that its answer
// can be read meanwhile.
func (e *exchange) send(o *outgoing) error {
	body := e.attempt.request.Body
	if len(o.bytes)+len(body) <= smallRequest {
		o.bytes = append(o.bytes, body...)
		_, err := e.link.Write(o.bytes)
		e.links.outgoings.put(o)
		return err
	}
	done := make(chan error, 1)
	e.upload = done
	go func() {
		_, err := e.link.Write(o.bytes)
		e.links.outgoings.put(o)
		if err == nil {
			_, err = e.link.Write(body)
		}
		done <- err
		close(done)
	}()
	return nil
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
