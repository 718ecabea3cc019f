package job

// WebhookState is where the delivery of a job's result stands.
type WebhookState string

// The states of a delivery.
const (
	WebhookNone      WebhookState = "none"      // the job has not ended
	WebhookPending   WebhookState = "pending"   // owed, and being tried
	WebhookDelivered WebhookState = "delivered" // the receiver took it
	WebhookRejected  WebhookState = "rejected"  // the receiver refused it for good
	WebhookFailed    WebhookState = "failed"    // every attempt failed; it can be redriven
	WebhookSkipped   WebhookState = "skipped"   // a caller has the result already, from a stream or as the answer to his call
)

// Settled reports whether the delivery is over.
func (w WebhookState) Settled() bool {
	return w == WebhookDelivered || w == WebhookRejected || w == WebhookFailed || w == WebhookSkipped
}

// Owable reports whether the delivery is over without having come through, so that it makes sense to
// owe it again.
func (w WebhookState) Owable() bool { return w == WebhookRejected || w == WebhookFailed }

// WebhookStates lists every state.
func WebhookStates() []WebhookState {
	return []WebhookState{
		WebhookNone, WebhookPending, WebhookDelivered, WebhookRejected, WebhookFailed, WebhookSkipped,
	}
}

// Webhook is the delivery of a job's result. The zero Webhook is that of a job that has not ended.
type Webhook struct {
	State       WebhookState `cbor:"1,keyasint"`           // empty means WebhookNone
	Attempts    int          `cbor:"2,keyasint,omitempty"` // deliveries tried
	LastStatus  int          `cbor:"3,keyasint,omitempty"` // the receiver's last status; 0 if it gave none
	DeliveredAt int64        `cbor:"4,keyasint,omitempty"` // Unix ms
	LastError   ErrorClass   `cbor:"5,keyasint,omitempty"` // why the last delivery brought no answer
	// Order and DueAt are the delivery's place, as in State.
	Order Order `cbor:"6,keyasint,omitempty"`
	DueAt int64 `cbor:"7,keyasint,omitempty"`
}

// Phase returns the state, WebhookNone for the zero Webhook.
func (w Webhook) Phase() WebhookState {
	if w.State == "" {
		return WebhookNone
	}
	return w.State
}
