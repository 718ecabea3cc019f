package job

// Request is what a caller asks for, checked and in one form. Decode makes it.
type Request struct {
	UserID  string `cbor:"1,keyasint"`
	KeyName string `cbor:"2,keyasint"` // idempotent_key
	Scope   Scope  `cbor:"3,keyasint,omitempty"`
	URL     string `cbor:"4,keyasint,omitempty"` // absolute http or https; empty for a pool job
	PoolID  string `cbor:"5,keyasint,omitempty"`
	Method  string `cbor:"6,keyasint"` // upper case
	// Headers go onto the call, sorted by name, no name twice.
	Headers    []Header `cbor:"7,keyasint,omitempty"`
	Body       []byte   `cbor:"8,keyasint,omitempty"` // byte for byte as sent; empty means no body at all
	WebhookURL string   `cbor:"9,keyasint"`
	// ExecuteBefore is when it is too late to send, in Unix ms; 0 for never.
	ExecuteBefore int64 `cbor:"10,keyasint,omitempty"`
	MaxRetries    int   `cbor:"11,keyasint"` // -1: until success, bounded by the deadline
	// TimeoutMS bounds one attempt, in ms: 0 means no limit, UnsetTimeout the target's own.
	TimeoutMS int64 `cbor:"12,keyasint"`
}

// UnsetTimeout is the TimeoutMS of a request that leaves the limit to the target's configuration.
const UnsetTimeout = -1

// Limits and defaults of a request.
const (
	DefaultMaxRetries = 4
	MinMaxRetries     = -1
	MaxMaxRetries     = 100
	MaxTimeoutMS      = 24 * 60 * 60 * 1000
)

// Key is the identity under which the request is accepted once.
func (r *Request) Key() Key {
	if r.Scope == ScopeShared {
		return Key{Scope: ScopeShared, Name: r.KeyName}
	}
	return Key{Scope: ScopeUser, UserID: r.UserID, Name: r.KeyName}
}
