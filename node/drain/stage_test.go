package drain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const url = "http://control.test/drain"

// stage is a node in drain mode, its store and its sink, in virtual time.
type stage struct {
	*testing.T
	disk    *storetest.Disk
	store   store.Store
	change  func(*drain.Config)
	drain   *drain.Drain
	metrics *prometheus.Registry
	log     *bytes.Buffer

	began      time.Time
	unfinished atomic.Int64
	jobs       int
	end        context.CancelFunc
	ended      chan error

	mu   sync.Mutex // guards what follows
	sink func(ctx context.Context, m message) (int, error)
	got  []message
}

// message is what a sink is posted, and when.
type message struct {
	Event         string         `json:"event"`
	BatchID       string         `json:"batch_id"`
	SequenceStart int64          `json:"sequence_start"`
	SequenceEnd   int64          `json:"sequence_end"`
	FlushedAt     string         `json:"flushed_at"`
	Ledger        []ledgerRecord `json:"ledger"`
	at            time.Duration
}

type ledgerRecord struct {
	Sequence   int64  `json:"sequence"`
	KeyHash    string `json:"idempotent_key_hash"`
	JobID      string `json:"job_id"`
	Status     string `json:"status"`
	RecordedAt int64  `json:"recorded_at"`
}

// play plays a scene with a node that runs, is idle at once, and is handed over 10 s later.
func play(t *testing.T, scene func(s *stage), changes ...func(*drain.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, changes...)
		s.run()
		scene(s)
		s.stop()
	})
}

func newStage(t *testing.T, changes ...func(*drain.Config)) *stage {
	s := &stage{T: t, disk: storetest.NewDisk(t), log: &bytes.Buffer{}, began: time.Now(), end: func() {}}
	s.disk.KeepLedger()
	s.change = func(c *drain.Config) {
		for _, change := range changes {
			change(c)
		}
	}
	s.takes(func(context.Context, message) (int, error) { return 204, nil })
	return s
}

// run starts a process on what the disk has.
func (s *stage) run() {
	s.Helper()
	var err error
	if s.store, err = s.disk.Open(); err != nil {
		s.Fatal(err)
	}
	s.metrics = prometheus.NewRegistry()
	c := drain.Config{
		Ledger: s.store, Unfinished: func() int { return int(s.unfinished.Load()) }, Timer: 10 * time.Second,
		WebhookURL: url, Send: s.send, Logger: slog.New(slog.NewTextHandler(s.log, nil)), Registerer: s.metrics,
		Jitter: func() float64 { return 0 },
	}
	s.change(&c)
	if s.drain, err = drain.New(c); err != nil {
		s.Fatal(err)
	}
	var ctx context.Context
	ctx, s.end = context.WithCancel(s.Context())
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.drain.Run(ctx) }()
	synctest.Wait()
}

// stop ends the process, which takes no time.
func (s *stage) stop() {
	s.Helper()
	before := time.Now()
	s.end()
	if err := <-s.ended; err != nil {
		s.Error(err)
	}
	if took := time.Since(before); took != 0 {
		s.Errorf("ended after %v", took)
	}
}

// takes sets how the sink answers.
func (s *stage) takes(answer func(ctx context.Context, m message) (int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = answer
}

// hang is a sink that never answers.
func hang(ctx context.Context, _ message) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// answers is a sink that answers with a status.
func answers(status int) func(context.Context, message) (int, error) {
	return func(context.Context, message) (int, error) { return status, nil }
}

func (s *stage) send(ctx context.Context, to string, body []byte) (int, error) {
	var m message
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil || to != url {
		s.Errorf("to %s: %s, %v", to, body, err)
	}
	m.at = time.Since(s.began)
	s.mu.Lock()
	s.got = append(s.got, m)
	answer := s.sink
	s.mu.Unlock()
	return answer(ctx, m)
}

// posts returns what was posted since the last call.
func (s *stage) posts() []message {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// posted checks when what was posted since the last call, and returns that.
func (s *stage) posted(want ...time.Duration) []message {
	s.Helper()
	got := s.posts()
	var at []time.Duration
	for _, m := range got {
		at = append(at, m.at)
	}
	if !reflect.DeepEqual(at, want) {
		s.Fatalf("posted at %v, want %v\n%s", at, want, s.log)
	}
	return got
}

// accept adds a job that waits.
func (s *stage) accept() *job.Job {
	s.Helper()
	s.jobs++
	j := &job.Job{ID: job.ID{byte(s.jobs >> 8), byte(s.jobs)}, Request: job.Request{
		UserID: "ada", URL: "http://target.test", WebhookURL: "http://receiver.test",
	}}
	j.Request.KeyName = j.ID.String()
	if _, err := s.store.Insert(s.Context(), j, store.Default); err != nil {
		s.Fatal(err)
	}
	return j
}

// finish ends a job, whose delivery is then owed.
func (s *stage) finish(j *job.Job) {
	s.Helper()
	now := time.Now()
	next := job.State{Status: job.Completed, EndedAt: now.UnixMilli(), ExpiresAt: now.Add(time.Hour).UnixMilli()}
	if _, err := s.store.Finish(s.Context(), store.Finish{Job: j, Next: next}); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) settle(j *job.Job) {
	s.Helper()
	if err := s.store.Settle(s.Context(), j.ID, job.Webhook{State: job.WebhookDelivered}); err != nil {
		s.Fatal(err)
	}
}

// done takes a new job through to the end of its delivery.
func (s *stage) done() *job.Job {
	s.Helper()
	j := s.accept()
	s.finish(j)
	s.settle(j)
	return j
}

// has checks whether the store has jobs.
func (s *stage) has(want bool, jobs ...*job.Job) {
	s.Helper()
	for _, j := range jobs {
		if _, err := s.store.Get(s.Context(), j.ID); (err == nil) != want || err != nil && !errors.Is(err, store.ErrNotFound) {
			s.Errorf("job %s: %v, want it there: %v", j.ID, err, want)
		}
	}
}

func (s *stage) is(want drain.State) {
	s.Helper()
	synctest.Wait()
	if got := s.drain.View().State; got != want {
		s.Fatalf("%s after %v, want %s\n%s", got, time.Since(s.began), want, s.log)
	}
}

// at lets the time come, counted from the beginning.
func (s *stage) at(t time.Duration) {
	time.Sleep(t - time.Since(s.began))
	synctest.Wait()
}

func (s *stage) logged(text string, times int) {
	s.Helper()
	if n := strings.Count(s.log.String(), text); n != times {
		s.Errorf("%q is logged %d times, want %d:\n%s", text, n, times, s.log)
	}
}

func every(interval time.Duration, most int) func(*drain.Config) {
	return func(c *drain.Config) { c.BatchInterval, c.BatchMaxEvents = interval, most }
}
