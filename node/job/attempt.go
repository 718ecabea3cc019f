package job

// ErrorClass says why an attempt brought no answer. The set is closed; it stands in GET /jobs/{id}.
type ErrorClass string

// The classes. Those that Final reports end the job at once.
const (
	ConnectRefused    ErrorClass = "connect_refused"             // nobody listens there
	ConnectTimeout    ErrorClass = "connect_timeout"             // no connection in time
	DNS               ErrorClass = "dns"                         // the name did not resolve
	TLS               ErrorClass = "tls"                         // no secure connection
	Timeout           ErrorClass = "timeout"                     // connected, but no whole answer in time
	ConnReset         ErrorClass = "conn_reset"                  // the connection broke
	ConnClosed        ErrorClass = "conn_closed_before_response" // closed before the first byte of an answer
	ResponseTruncated ErrorClass = "response_truncated"          // the answer ended before its announced end
	HeaderTooLarge    ErrorClass = "response_header_too_large"   // the answer's headers are over the limit
	ProtocolError     ErrorClass = "protocol_error"              // the answer is not HTTP
	BlockedTarget     ErrorClass = "blocked_target"              // the egress guard refused the address
	DeadlineExceeded  ErrorClass = "execution_deadline_exceeded" // too late to send
	CrashedWorker     ErrorClass = "crashed_worker"              // the node died during the attempt, or cut it at the end of a stop
	Internal          ErrorClass = "internal"                    // a fault of ours
)

// ErrorClasses lists every class.
func ErrorClasses() []ErrorClass {
	return []ErrorClass{
		ConnectRefused, ConnectTimeout, DNS, TLS, Timeout, ConnReset, ConnClosed, ResponseTruncated,
		HeaderTooLarge, ProtocolError, BlockedTarget, DeadlineExceeded, CrashedWorker, Internal,
	}
}

// Final reports whether another attempt is no use.
func (c ErrorClass) Final() bool { return c == BlockedTarget || c == DeadlineExceeded }

// Attempt is one try at the target.
type Attempt struct {
	Number     int        `cbor:"1,keyasint"` // from 1
	StartedAt  int64      `cbor:"2,keyasint"` // Unix ms
	DurationMS int64      `cbor:"3,keyasint"`
	Status     int        `cbor:"4,keyasint,omitempty"` // the answer's status; 0 if there was none
	Error      ErrorClass `cbor:"5,keyasint,omitempty"` // empty if there was an answer
	// Late marks an answer that came when a later attempt had begun; it decided nothing.
	Late bool `cbor:"6,keyasint,omitempty"`
	// RetryWaitMS is how long the job waits for its next attempt; 0 if this one was the last.
	RetryWaitMS int64 `cbor:"7,keyasint,omitempty"`
	// MaybeExecuted marks a failed attempt whose request the target may have read.
	MaybeExecuted bool `cbor:"8,keyasint,omitempty"`
	// RetryAfter is the target's own words about when to come back, as sent; empty if it had none.
	RetryAfter string `cbor:"9,keyasint,omitempty"`
	// Asked tells that RetryWaitMS is what the target has asked for, and not our own back-off.
	Asked bool `cbor:"10,keyasint,omitempty"`
}
