package events

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Event is one thing that happened to a job.
type Event struct {
	// Seq is the event's id. An event that cannot be asked for again, such as a position, has the id
	// of the last one before it that can: whoever resumes from it misses nothing.
	Seq  int
	Name string
	Data any // one of the structs of this package whose name ends in Data
}

// ID returns the id as it stands in a stream and in Last-Event-ID.
func (e Event) ID() string { return strconv.Itoa(e.Seq) }

// Terminal reports whether the event is the end of its job.
func (e Event) Terminal() bool { return e.Name == NameCompleted || e.Name == NameFailed }

// lasting reports whether the event is part of the job's history.
func (e Event) lasting() bool {
	return e.Name == NameQueued || e.Name == NameDispatching || e.Name == NameRetrying || e.Terminal()
}

// Decode reads the data of an event of this name, as JSON wrote it. ok is false for a name that is
// not known here; a reader should pass over it. A failed event without an answer also becomes a
// FailedData.
func Decode(name string, data []byte) (_ any, ok bool, err error) {
	switch name {
	case NameQueued:
		return decode[QueuedData](name, data)
	case NameDispatching:
		return decode[DispatchingData](name, data)
	case NamePosition:
		return decode[PositionData](name, data)
	case NameRetrying:
		return decode[RetryingData](name, data)
	case NameCompleted:
		return decode[CompletedData](name, data)
	case NameFailed:
		return decode[FailedData](name, data)
	case NameGap:
		return decode[GapData](name, data)
	case NameClosing:
		return decode[ClosingData](name, data)
	case NameRerouted:
		return decode[ReroutedData](name, data)
	case NameProxyFallback:
		return decode[ProxyFallbackData](name, data)
	default:
		return nil, false, nil
	}
}

func decode[T any](name string, data []byte) (any, bool, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, true, fmt.Errorf("data of event %s: %w", name, err)
	}
	return v, true, nil
}

// Queued says that the job was accepted.
func Queued(id job.ID) Event {
	return Event{Seq: seqQueued, Name: NameQueued, Data: QueuedData{JobID: id.String(), Status: job.Queued}}
}

// Dispatching says that the latest attempt of s begins.
func Dispatching(s job.Snapshot) Event { return dispatching(s.Job.ID, s.State.Tried) }

func dispatching(id job.ID, attempt int) Event {
	return Event{Seq: 2 * attempt, Name: NameDispatching, Data: DispatchingData{Attempt: attempt, JobID: id.String()}}
}

// Retrying says that the latest attempt of s failed and the next one is due at its DueAt. reason
// says why.
func Retrying(s job.Snapshot, reason string) Event {
	a := job.Attempt{Number: s.State.Tried}
	if n := len(s.State.Attempts); n > 0 {
		a = s.State.Attempts[n-1]
	}
	return retrying(s, a, reason)
}

func retrying(s job.Snapshot, a job.Attempt, reason string) Event {
	at := s.State.DueAt
	if a.Number != s.State.Tried || at == 0 {
		at = a.StartedAt + a.DurationMS + a.RetryWaitMS
	}
	return Event{Seq: 2*a.Number + 1, Name: NameRetrying, Data: RetryingData{
		Attempt: a.Number, JobID: s.Job.ID.String(), MaxRetries: s.Job.Request.MaxRetries,
		Reason: reason, ResponseStatus: a.Status, RetryAt: at,
	}}
}

// Terminal says how the job of s ended. payload is the whole body of its answer if the one in s is
// cut and the whole one is at hand, else nil.
func Terminal(s job.Snapshot, payload []byte) Event {
	e := Event{Seq: 2*s.State.Tried + 2, Name: NameFailed}
	id, status := s.Job.ID.String(), s.State.ResponseStatus()
	switch {
	case s.State.Phase() == job.Completed:
		e.Name = NameCompleted
		e.Data = CompletedData{Shown: s.State.Result.Show(payload), JobID: id, ResponseStatus: status}
	case s.State.Dropped():
		e.Data = DroppedData{JobID: id, Reason: s.State.Reason}
	default:
		e.Data = FailedData{
			Attempts: s.State.Tried, Shown: s.State.Result.Show(payload), JobID: id, Reason: s.State.Reason, ResponseStatus: status,
		}
	}
	return e
}

// Position says how many jobs of its lane are served before the job is, itself included, and how many
// milliseconds that may take; nil while nobody can tell. after is the id of the last event of the stream.
func Position(id job.ID, after, position int, etaMS *int64) Event {
	return Event{Seq: after, Name: NamePosition, Data: PositionData{ETAMS: etaMS, JobID: id.String(), Position: position}}
}

// Gap says that events are missing before the one whose id is oldest.
func Gap(oldest int, reason GapReason) Event {
	return Event{Seq: oldest - 1, Name: NameGap, Data: GapData{Oldest: oldest, Reason: reason}}
}

// Closing says that the server ends the stream although the job has not ended. after is the id of the
// last event of the stream, from which the client resumes.
func Closing(after int, reason ClosingReason) Event {
	return Event{Seq: after, Name: NameClosing, Data: ClosingData{Reason: reason}}
}

// Rerouted says that another region took the request. It comes before all events of the job.
func Rerouted(region string) Event {
	return Event{Name: NameRerouted, Data: ReroutedData{Region: region}}
}

// ProxyFallback says that the request joins the queue. It comes before all events of the job.
// status is what the target answered; 0 if it did not.
func ProxyFallback(id job.ID, reason string, status int) Event {
	return Event{Name: NameProxyFallback, Data: ProxyFallbackData{JobID: id.String(), Reason: reason, UpstreamStatus: status}}
}

// seqQueued is the id of the first event; 0 is the id of a stream that has shown none.
const seqQueued = 1
