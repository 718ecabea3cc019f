package results

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// KeepResults keeps what ended jobs have answered for as long as if they had ended now, and returns the names of the
// results by the ids of the jobs. What is there already of a job, or of a later one of its key, stays as it is: the node
// may have cut its own since.
// The error is that of the iterator, or says that not all is kept; the caller goes on having them then.
func (r *Region) KeepResults(ctx context.Context, jobs iter.Seq2[job.Snapshot, error]) (map[job.ID]string, error) {
	if r == nil {
		return nil, errNoRegion
	}
	names := make(map[job.ID]string)
	answers := func(yield func(answer, error) bool) {
		for s, err := range jobs {
			if err != nil {
				yield(answer{}, err)
				return
			}
			a := answer{id: s.Job.ID, key: r.resultKey(s.Job.Request.Key()), text: Snapshot(s, nil, r.cfg.MaxBytes)}
			names[a.id] = a.key
			if !yield(a, nil) {
				return
			}
		}
	}
	return names, inBatches(answers, func(list []answer) error { return r.keep(ctx, list) })
}

// answer is what a job has answered, and the name under which it is kept.
type answer struct {
	id        job.ID
	key, text string
}

func (a answer) size() int { return len(a.text) }

func (r *Region) keep(ctx context.Context, list []answer) error {
	_, err := link.Do(ctx, r.recording, func(ctx context.Context, c valkey.Client) (struct{}, error) {
		commands := make([]valkey.Completed, len(list))
		for i, a := range list {
			commands[i] = a.keep(c, r.cfg.TTL)
		}
		return struct{}{}, firstError(c.DoMulti(ctx, commands...))
	})
	return err
}

// keep has Valkey keep the answer, unless it does already, for ttl from now on.
func (a answer) keep(c valkey.Client, ttl time.Duration) valkey.Completed {
	life := strconv.FormatInt(ttl.Milliseconds(), 10)
	return c.B().Eval().Script(keepScript).Numkeys(1).Key(a.key).Arg(a.id.String(), a.text, life).Build()
}

// keepScript sets a result, unless the one of the same job or of a later one is there, whose life it makes longer: ids
// sort by the time of acceptance. KEYS: result. ARGV: job id, result, TTL in ms.
const keepScript = `
local text = redis.pcall('GET', KEYS[1])
local ok, kept = pcall(cjson.decode, text)
if not ok or type(kept) ~= 'table' or type(kept.job_id) ~= 'string' or kept.job_id < ARGV[1] then text = ARGV[2] end
redis.call('SET', KEYS[1], text, 'PX', ARGV[3])
return 1
`
