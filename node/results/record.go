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

const (
	// maxClaims and maxResults bound what waits for Valkey, in bytes: what keys became, and what jobs answered.
	maxClaims  = 16 << 20
	maxResults = 16 << 20
	// batchBytes and batchSize bound one call of the writer.
	batchBytes = 1 << 20
	batchSize  = 256
	// overhead is what a record costs beside its texts, in bytes.
	overhead = 200
	// rewriteMin and rewriteMax bound the wait after a call that failed.
	rewriteMin = 100 * time.Millisecond
	rewriteMax = 2 * time.Second
	// lastWords is how long what waits may still be written when the node stops.
	lastWords = 2 * time.Second
	// maxTTL bounds how long a key is kept whose job has no end in sight.
	maxTTL = 365 * 24 * time.Hour
)

// record is something to write. Result is written before entry, which names it.
type record struct {
	key, entry        string // empty: there is none
	resultKey, result string // empty: there is none
	ttl               time.Duration
	// stored is the id of a job that is stored now and has not ended; its entry is written only in place of
	// its claim. Empty: the entry is written whatever stands there.
	stored string
	// again is the id of a job that ended a while ago, whose result may be there already, and whole. Zero: the
	// result is written whatever stands there.
	again job.ID
	// void is the id of a job that has left no trace, whose claim or entry is taken back; there is nothing else to
	// write then. Zero: the record is of no such job.
	void job.ID
}

// weight is what a record takes of the room for those that wait.
func (r record) weight() weight {
	w := weight{claims: len(r.key) + len(r.entry), results: len(r.resultKey) + len(r.result)}
	if r.key == "" {
		w.results += overhead
	} else {
		w.claims += overhead
	}
	return w
}

func (r record) size() int {
	w := r.weight()
	return w.claims + w.results
}

// Stored tells that the job of a claimed key is stored here. It does not wait. If too much waits for Valkey already, the
// region is not told, and Lost says so when it can be.
func (r *Region) Stored(j *job.Job) {
	if rec, ok := r.storedRecord(j); ok {
		r.write(rec)
	}
}

// Ended tells that a job has ended, with the whole body of its answer if the one in s is cut and the whole one
// is at hand, else nil. It does not wait. A job that runs another one again has no key, and is not told of. If too
// much waits for Valkey already, the answer is left out first, and Lost says of either that there is something to tell.
func (r *Region) Ended(s job.Snapshot, payload []byte) {
	rec, ok := r.endedRecord(s, payload)
	if ok && !r.write(rec) && rec.key != "" && rec.result != "" {
		r.waiting.add(r.endedClaim(s))
	}
}

// Void tells that a job has left no trace, so that its key is free again. It does not wait. If too much waits for Valkey
// already, or that is away for too long, the claim of the job ends by itself.
func (r *Region) Void(j *job.Job) {
	if rec, ok := r.voidRecord(j); ok {
		r.write(rec)
	}
}

// Remind tells of jobs once more, because Valkey may not have heard of them, or has lost it. Unlike Stored and Ended
// it waits, so that what is happening now has the room that there is. The error is that of the iterator, or says that
// Valkey was not told of all.
func (r *Region) Remind(ctx context.Context, jobs iter.Seq2[job.Snapshot, error]) error {
	records := func(yield func(record, error) bool) {
		for s, err := range jobs {
			rec, ok := r.recordOf(s, err)
			if (ok || err != nil) && !yield(rec, err) {
				return
			}
		}
	}
	return inBatches(records, func(list []record) error { return r.record(ctx, list) })
}

// recordOf is false if there is nothing to tell of a job, or it could not be read.
func (r *Region) recordOf(s job.Snapshot, err error) (record, bool) {
	switch {
	case err != nil:
		return record{}, false
	case s.Job.Void(s.State.Phase()):
		return r.voidRecord(s.Job)
	case s.State.Phase().Ended():
		rec, ok := r.endedRecord(s, nil)
		rec.again = s.Job.ID
		return rec, ok
	case s.Job.DirectOnly: // it is claimed until it is known whether it leaves a trace
		return record{}, false
	default:
		return r.storedRecord(s.Job)
	}
}

// storedRecord is false if there is nothing to tell.
func (r *Region) storedRecord(j *job.Job) (record, bool) {
	if r == nil || !r.cfg.Claims || !j.RedriveOf.IsZero() {
		return record{}, false
	}
	key := j.Request.Key()
	left := min(time.Until(time.UnixMilli(j.Deadline)), maxTTL)
	return record{
		key: r.key(key), entry: marshal(r.entryOf(j, job.Queued)), stored: j.ID.String(), ttl: max(left, 0) + r.cfg.TTL,
	}, true
}

// voidRecord is false if there is nothing to tell.
func (r *Region) voidRecord(j *job.Job) (record, bool) {
	if r == nil || !r.cfg.Claims || !j.RedriveOf.IsZero() {
		return record{}, false
	}
	return record{key: r.key(j.Request.Key()), void: j.ID}, true
}

// endedRecord is false if there is nothing to tell.
func (r *Region) endedRecord(s job.Snapshot, payload []byte) (record, bool) {
	if r == nil || !s.Job.RedriveOf.IsZero() {
		return record{}, false
	}
	key := s.Job.Request.Key()
	rec := record{ttl: r.cfg.TTL}
	if r.cfg.Claims {
		rec.key, rec.entry = r.key(key), marshal(r.entryOf(s.Job, s.State.Phase()))
	}
	if r.cfg.Results {
		rec.resultKey, rec.result = r.resultKey(key), Snapshot(s, payload, r.cfg.MaxBytes)
	}
	return rec, true
}

// endedClaim tells what the key of an ended job became, and names no answer.
func (r *Region) endedClaim(s job.Snapshot) record {
	e := r.entryOf(s.Job, s.State.Phase())
	e.ResultKey = ""
	return record{key: r.key(s.Job.Request.Key()), entry: marshal(e), ttl: r.cfg.TTL}
}

// write has a record written, and reports whether there was room for it.
func (r *Region) write(rec record) bool {
	if r.waiting.add(rec) {
		return true
	}
	r.metrics.records.WithLabelValues(dropped).Inc()
	r.owing.Store(true)
	return false
}

// Run writes what it is told until ctx ends, and then for a moment what still waits.
func (r *Region) Run(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	wait := rewriteMin
	for ctx.Err() == nil {
		list := r.waiting.first()
		if len(list) == 0 {
			select {
			case <-ctx.Done():
			case <-r.waiting.more:
			}
			continue
		}
		if err := r.record(ctx, list); err != nil {
			r.cfg.Logger.DebugContext(ctx, "results not written to valkey", "records", len(list), "error", err)
			sleep(ctx, wait)
			wait = min(2*wait, rewriteMax)
			continue
		}
		wait = rewriteMin
		r.done(list)
	}
	r.finish(context.WithoutCancel(ctx))
	return nil
}

// finish writes what waits when the node stops, as long as Valkey takes it.
func (r *Region) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	for list := r.waiting.first(); len(list) > 0; list = r.waiting.first() {
		if err := r.record(ctx, list); err != nil {
			r.metrics.records.WithLabelValues(dropped).Add(float64(r.waiting.clear()))
			r.cfg.Logger.WarnContext(ctx, "results not written to valkey before the stop", "error", err)
			return
		}
		r.done(list)
	}
}

func (r *Region) done(list []record) {
	r.waiting.drop(len(list))
	r.metrics.records.WithLabelValues(written).Add(float64(len(list)))
}

// record writes a batch. If that fails, some of it may have been written; in the same order again, the outcome
// is the same.
func (r *Region) record(ctx context.Context, list []record) error {
	_, err := link.Do(ctx, r.recording, func(ctx context.Context, c valkey.Client) (struct{}, error) {
		if err := firstError(c.DoMulti(ctx, resultsOf(c, list)...)); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, firstError(c.DoMulti(ctx, entriesOf(c, list)...))
	})
	return err
}

func resultsOf(c valkey.Client, list []record) []valkey.Completed {
	var commands []valkey.Completed
	for _, rec := range list {
		switch {
		case rec.resultKey == "":
		case rec.again.IsZero():
			commands = append(commands, c.B().Set().Key(rec.resultKey).Value(rec.result).Px(rec.ttl).Build())
		default:
			commands = append(commands, answer{id: rec.again, key: rec.resultKey, text: rec.result}.keep(c, rec.ttl))
		}
	}
	return commands
}

func entriesOf(c valkey.Client, list []record) []valkey.Completed {
	var commands []valkey.Completed
	for _, rec := range list {
		switch {
		case rec.key == "":
		case !rec.void.IsZero():
			commands = append(commands, c.B().Eval().Script(abandonScript).Numkeys(1).Key(rec.key).Arg(rec.void.String()).Build())
		case rec.stored == "":
			commands = append(commands, c.B().Set().Key(rec.key).Value(rec.entry).Px(rec.ttl).Build())
		default:
			commands = append(commands, c.B().Eval().Script(confirmScript).Numkeys(1).Key(rec.key).
				Arg(rec.stored, rec.entry, strconv.FormatInt(rec.ttl.Milliseconds(), 10)).Build())
		}
	}
	return commands
}

func firstError(answers []valkey.ValkeyResult) error {
	for _, a := range answers {
		if err := a.Error(); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
