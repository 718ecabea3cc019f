package intake

import (
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// enter reserves the place of a new job, past the queue or in it. One for which there is no more room past the queue has to
// be let in by those who share that.
func (in *Intake) enter(s Submission, j *job.Job) (*queue.Place, Load, error) {
	if err := in.Admission.AdmitUser(s.Request); err != nil {
		return nil, Load{}, err
	}
	if place := in.past(s, j); place != nil {
		return place, Load{}, nil
	}
	if s.DirectOnly {
		return nil, Load{}, ErrNotDirect
	}
	place, joined := in.Calls.Join(j.Lane(), j.ID)
	load := Load{ActiveQueues: joined.ActiveLanes, UpstreamBacklog: joined.TargetBacklog, QueueBacklog: joined.LaneBacklog}
	var err error
	if load.Pressure, err = in.Admission.AdmitJoined(joined); err != nil {
		load = load.without()
	}
	return place, load, err
}

// past reserves a turn past the queue; nil: there is none.
func (in *Intake) past(s Submission, j *job.Job) *queue.Place {
	if s.Direct == nil {
		return nil
	}
	place, load := in.Calls.Direct(j.Lane(), j.ID)
	if place == nil {
		return nil
	}
	if !in.Admission.AdmitDirect(load) {
		place.Cancel()
		return nil
	}
	j.Direct, j.DirectOnly = true, s.DirectOnly
	return place
}

// ErrNotDirect is the error of a submission that is for a turn past the queue alone, and cannot have one now. It leaves no
// trace, or if it was stored when the node stopped, one that the next process takes away.
var ErrNotDirect = errors.New("intake: no turn past the queue now")

// send has a stored job take its turn, and reports whether it is one past the queue.
func (in *Intake) send(s Submission, j *job.Job, place *queue.Place, e job.Entry) (direct bool) {
	crashpoint.Reach(crashpoint.Stored)
	if s.Stored != nil {
		s.Stored(j.ID)
	}
	if j.Direct {
		direct = place.Start(e, &job.Snapshot{Job: j}, s.Direct)
	} else {
		place.Push(e, &job.Snapshot{Job: j})
	}
	in.Wake(time.UnixMilli(j.Deadline))
	return direct
}
