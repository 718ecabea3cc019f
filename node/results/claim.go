package results

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

const (
	// claimTTL is how long a claim lives whose node says nothing more, beside what its job is tried for: longer than
	// storing a job takes on a disk that can hardly follow.
	claimTTL = 30 * time.Second
	// settling is how long a caller waits for another node to store the job of its key, and settlePause
	// how long between two looks.
	settling    = time.Second
	settlePause = 25 * time.Millisecond
)

// Holder is the job that a key became at some node of the region.
type Holder struct {
	ID     job.ID
	Status job.Status
	// ResultKey is where Valkey has what it answered; empty if nowhere.
	ResultKey string

	payload string // see entry
}

// Mismatch reports whether the job is known to ask for something else than a request with that payload.
func (h *Holder) Mismatch(p job.PayloadHash) bool {
	return h.payload != "" && h.payload != hex.EncodeToString(p[:])
}

// Claim claims a key for a job that is about to be stored here, and returns nil; or it returns the job that the
// key became before. The error is a fault, Unavailable, if another node has claimed the key and does not
// store its job within a second. Without an answer of Valkey, the key counts as claimed.
//
// attempt bounds how long the job is tried before it is known whether the key becomes it; 0: it does once it is stored.
// The claim lives longer than that by half a minute.
//
// Who has claimed a key calls Stored or Abandon, or Ended or Void of a job that was tried first. Of several claims of one node each succeeds: the store
// of that node decides.
func (r *Region) Claim(ctx context.Context, key job.Key, id job.ID, attempt time.Duration) (*Holder, error) {
	if r == nil || !r.cfg.Claims {
		return nil, nil
	}
	mine := marshal(entry{Claim: id.String(), RecordedAt: time.Now().UnixMilli(), Source: source, User: userOf(key)})
	for limit := time.Now().Add(settling); ; {
		text, err := link.Do(ctx, r.asking, func(ctx context.Context, c valkey.Client) (string, error) {
			return orNothing(c.Do(ctx, c.B().Set().Key(r.key(key)).Value(mine).Nx().Get().Px(attempt+claimTTL).Build().ToRetryable()))
		})
		holder, wait := r.judge(text, key)
		switch {
		case err != nil:
			r.metrics.claims.WithLabelValues(failed).Inc()
			return nil, nil //nolint:nilerr // the node decides alone then
		case holder != nil:
			r.metrics.claims.WithLabelValues(duplicate).Inc()
			return holder, nil
		case !wait:
			r.metrics.claims.WithLabelValues(claimed).Inc()
			return nil, nil
		case !pause(ctx, limit):
			r.metrics.claims.WithLabelValues(contended).Inc()
			return nil, &fault.Error{Kind: fault.Unavailable, Detail: "another node is just accepting this key", RetryAfter: time.Second}
		}
	}
}

// Find returns the job that a key became; nil if there is none, or Valkey does not answer.
func (r *Region) Find(ctx context.Context, key job.Key) *Holder {
	if r == nil || !r.cfg.Claims {
		return nil
	}
	text, err := r.get(ctx, r.key(key))
	if err != nil {
		return nil
	}
	holder, _ := r.judge(text, key)
	return holder
}

// judge returns the job that an entry tells of, or whether the entry is a claim to wait for.
func (r *Region) judge(text string, key job.Key) (h *Holder, wait bool) {
	e, ok := read(text, key)
	if !ok {
		return nil, false
	}
	if e.JobID == "" {
		claimer, err := job.ParseID(e.Claim)
		return nil, err == nil && claimer.NodeTag() != r.cfg.Node
	}
	id, err := job.ParseID(e.JobID)
	if err != nil {
		return nil, false
	}
	if e.Status == "" {
		e.Status = job.Queued
	}
	return &Holder{ID: id, Status: e.Status, ResultKey: e.ResultKey, payload: e.Payload}, false
}

// Abandon takes back a claim whose job was not stored, or has left no trace: then also what Valkey was told of it
// meanwhile, unless that is an answer.
func (r *Region) Abandon(ctx context.Context, key job.Key, id job.ID) {
	if r == nil || !r.cfg.Claims {
		return
	}
	// Also for a caller who has hung up. If it fails, the claim ends by itself.
	_, _ = link.Do(context.WithoutCancel(ctx), r.asking, func(ctx context.Context, c valkey.Client) (int64, error) {
		return r.abandon.Exec(ctx, c, []string{r.key(key)}, []string{id.String()}).AsInt64()
	})
}

// abandonScript deletes the claim of a job, or the entry of one that has not completed. What is no text is another's.
// KEYS: entry. ARGV: job id.
const abandonScript = `
local text = redis.pcall('GET', KEYS[1])
if type(text) ~= 'string' then return 0 end
local ok, entry = pcall(cjson.decode, text)
if not ok or type(entry) ~= 'table' or entry.status == 'completed' then return 0 end
if (entry.job_id or entry.claim) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

// confirmScript replaces a claim of the same node, or nothing, by the entry of a stored job. Job ids of one node
// have the same six digits from the 13th on. What is no text is another's. KEYS: entry. ARGV: job id, entry,
// TTL in ms.
const confirmScript = `
local text = redis.pcall('GET', KEYS[1])
if text then
  if type(text) ~= 'string' then return 0 end
  local ok, entry = pcall(cjson.decode, text)
  if not ok or type(entry) ~= 'table' or entry.job_id or type(entry.claim) ~= 'string' then return 0 end
  if string.sub(entry.claim, 13, 18) ~= string.sub(ARGV[1], 13, 18) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`

func (r *Region) get(ctx context.Context, key string) (string, error) {
	return link.Do(ctx, r.asking, func(ctx context.Context, c valkey.Client) (string, error) {
		return orNothing(c.Do(ctx, c.B().Get().Key(key).Build()))
	})
}

// orNothing is the text of an answer, empty if there is none.
func orNothing(answer valkey.ValkeyResult) (string, error) {
	text, err := answer.ToString()
	if errors.Is(err, valkey.Nil) {
		return "", nil
	}
	return text, err
}

// pause waits a moment, and reports whether there is time to look again.
func pause(ctx context.Context, limit time.Time) bool {
	if !time.Now().Before(limit) {
		return false
	}
	sleep(ctx, settlePause)
	return ctx.Err() == nil
}
