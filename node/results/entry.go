package results

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// source is who writes, for those who look.
const source = "aquifer"

// entry is what stands at a key. An entry without a job id is a miss to every node that speaks the protocol.
type entry struct {
	JobID string `json:"job_id,omitempty"`
	// Claim is the id of a job that is about to be stored; there is no JobID then.
	Claim      string     `json:"claim,omitempty"`
	Status     job.Status `json:"status,omitempty"`
	RecordedAt int64      `json:"recorded_at,omitempty"` // Unix ms
	Source     string     `json:"source,omitempty"`
	ResultKey  string     `json:"result_key,omitempty"`
	// User tells apart two keys whose hashes on the wire are the same; empty if the scope is shared, and in
	// the entries of nodes that do not write it.
	User string `json:"user,omitempty"`
	// Payload tells whether another request with the key asks for the same; empty in the entries of who does
	// not write it.
	Payload string `json:"payload,omitempty"`
}

// result is what a job answered.
type result struct {
	JobID          string     `json:"job_id"`
	Status         job.Status `json:"status"`
	ResponseStatus int        `json:"response_status,omitempty"`
	ContentType    string     `json:"content_type,omitempty"`
	Body           string     `json:"body,omitempty"`
	BodyEncoding   string     `json:"body_encoding,omitempty"`
	BodyTruncated  bool       `json:"body_truncated,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	RecordedAt     int64      `json:"recorded_at"` // Unix ms
	Source         string     `json:"source"`
	User           string     `json:"user,omitempty"`
}

// userOf is what tells apart the users of one hash.
func userOf(key job.Key) string {
	if key.Scope == job.ScopeShared {
		return ""
	}
	sum := sha256.Sum256([]byte(key.UserID))
	return hex.EncodeToString(sum[:])
}

// of reports whether a value that names a user, or none, is about the key.
func of(user string, key job.Key) bool { return user == "" || user == userOf(key) }

// read returns the entry that a text is, if it is one of the key.
func read(text string, key job.Key) (e entry, ok bool) {
	if json.Unmarshal([]byte(text), &e) != nil {
		return entry{}, false
	}
	return e, of(e.User, key)
}

func (r *Region) key(k job.Key) string       { return r.cfg.Prefix + k.WireHash() }
func (r *Region) resultKey(k job.Key) string { return r.cfg.ResultPrefix + k.WireHash() }

// entryOf is the entry of a job that is stored.
func (r *Region) entryOf(j *job.Job, status job.Status) entry {
	key, payload := j.Request.Key(), j.Request.Payload()
	e := entry{
		JobID: j.ID.String(), Status: status, RecordedAt: time.Now().UnixMilli(), Source: source, User: userOf(key),
		Payload: hex.EncodeToString(payload[:]),
	}
	if r.cfg.Results && status.Ended() {
		e.ResultKey = r.resultKey(key)
	}
	return e
}

// Snapshot is the JSON of what an ended job answered, with at most so many bytes of the body. payload is the
// whole body if the one in s is cut and the whole one is at hand, else nil.
func Snapshot(s job.Snapshot, payload []byte, maxBytes int) string {
	key := s.Job.Request.Key()
	v := result{
		JobID: s.Job.ID.String(), Status: s.State.Phase(), ResponseStatus: s.State.ResponseStatus(), Reason: s.State.Reason,
		RecordedAt: s.State.EndedAt, Source: source, User: userOf(key),
	}
	if answer := s.State.Result; answer != nil {
		kept := *answer
		if payload != nil {
			kept.Body, kept.Truncated = payload, false
		}
		body, cut := job.Cut(kept.Body, maxBytes)
		kept.Body, kept.Truncated = body, kept.Truncated || cut
		shown := kept.Show(nil)
		v.ContentType, v.Body, v.BodyEncoding, v.BodyTruncated = kept.ContentType, shown.Body, shown.BodyEncoding, shown.BodyTruncated
	}
	return marshal(v)
}

// marshal is for values of strings, numbers and booleans, which always have a form.
func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}
