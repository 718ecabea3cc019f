package nodetest

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Receiver is a Server that takes the results of jobs.
type Receiver struct{ *Server }

// Delivery is one attempt at a delivery as a Receiver got it.
type Delivery struct {
	Request
	ID      string // of the delivery: the same in each attempt
	Attempt string // as its header says
	Message Message
}

// Message is the body of a delivery.
type Message struct {
	JobID          string     `json:"job_id"`
	Status         job.Status `json:"status"`
	Reason         string     `json:"reason"`
	ResponseStatus int        `json:"response_status"`
	Body           string     `json:"body"`
	BodyEncoding   string     `json:"body_encoding"`
	BodyTruncated  bool       `json:"body_truncated"`
}

// Bytes returns the body of the answer that the message carries.
func (m Message) Bytes() []byte {
	if m.BodyEncoding == job.EncodingBase64 {
		b, _ := base64.StdEncoding.DecodeString(m.Body) // nil if it is none, which no test expects
		return b
	}
	return []byte(m.Body)
}

// Deliveries returns what came, in order.
func (r *Receiver) Deliveries() []Delivery {
	var list []Delivery
	for _, req := range r.Requests() {
		d := Delivery{
			Request: req, ID: req.Header.Get("X-Aqueduct-Delivery-Id"), Attempt: req.Header.Get("X-Aqueduct-Delivery-Attempt"),
		}
		_ = json.Unmarshal(req.Body, &d.Message) // what is no message shows as an empty one
		list = append(list, d)
	}
	return list
}

// Of returns the deliveries of one job.
func (r *Receiver) Of(jobID string) []Delivery {
	return slices.DeleteFunc(r.Deliveries(), func(d Delivery) bool { return d.Message.JobID != jobID })
}
