package intake

import (
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// enter reserves the place of a new job, past the queue or in it. Only a job that waits in the queue has to be let in by
// those who share it.
func (in *Intake) enter(s Submission, j *job.Job) (*queue.Place, Load, error) {
	if s.Direct != nil {
		if place := in.Calls.Direct(j.Lane(), j.ID); place != nil {
			j.Direct, j.DirectOnly = true, s.DirectOnly
			return place, Load{}, nil
		}
	}
	if s.DirectOnly {
		return nil, Load{}, ErrNotDirect
	}
	if err := in.Admission.AdmitUser(s.Request); err != nil {
		return nil, Load{}, err
	}
	place, joined := in.Calls.Join(j.Lane(), j.ID)
	load := Load{ActiveQueues: joined.ActiveLanes, UpstreamBacklog: joined.TargetBacklog, QueueBacklog: joined.LaneBacklog}
	var err error
	if load.Pressure, err = in.Admission.AdmitJoined(joined); err != nil {
		load = load.without()
	}
	return place, load, err
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
