package drain_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

const (
	second = time.Second
	ms     = time.Millisecond
)

func TestHandOver(t *testing.T) {
	play(t, func(s *stage) {
		a, b := s.done(), s.done()
		s.at(5 * second) // a reading finds that there was work
		s.is(drain.Active)
		s.at(10 * second)
		s.is(drain.Draining)
		s.has(true, a, b)
		s.at(20*second - 1)
		s.is(drain.Draining)
		s.at(20 * second)
		s.is(drain.Unassigned)
		m := s.posted(20 * second)[0]
		want := message{
			Event: "instance_idle", BatchID: fmt.Sprintf("%d-%d", m.Ledger[0].Sequence, m.Ledger[1].Sequence),
			SequenceStart: m.Ledger[0].Sequence, SequenceEnd: m.Ledger[1].Sequence,
			FlushedAt: s.began.Add(20 * second).UTC().Format(time.RFC3339), at: m.at,
		}
		for i, j := range []*job.Job{a, b} {
			want.Ledger = append(want.Ledger, ledgerRecord{
				Sequence: m.Ledger[i].Sequence, KeyHash: j.Request.Key().WireHash(), JobID: j.ID.String(), Status: "completed",
				RecordedAt: s.began.UnixMilli(),
			})
		}
		if !reflect.DeepEqual(m, want) || want.SequenceStart >= want.SequenceEnd {
			s.Errorf("posted %+v\nwant   %+v", m, want)
		}
		s.has(false, a, b)

		s.at(time.Hour) // free nodes say nothing
		s.posted()
		s.is(drain.Unassigned)
		s.done()
		s.at(time.Hour + 5*second)
		s.is(drain.Active)
		s.at(time.Hour + 20*second)
		s.is(drain.Unassigned)
		s.posted(time.Hour + 20*second)
	})
}

// Without anything to tell, nothing is posted, and the node is free all the same.
func TestHandOverOfNothing(t *testing.T) {
	play(t, func(s *stage) {
		s.at(15 * second)
		s.is(drain.Unassigned)
		s.posted()
		if err := s.drain.Run(s.Context()); !errors.Is(err, drain.ErrStarted) {
			s.Errorf("second Run: %v", err)
		}
	})
}

// A free node that gets work is not free any more, also between two readings.
func TestWorkShowsAtOnce(t *testing.T) {
	play(t, func(s *stage) {
		s.at(15 * second)
		s.is(drain.Unassigned)
		s.at(16 * second)
		s.unfinished.Store(1)
		s.is(drain.Active)
		s.unfinished.Store(0)
		s.done()
		s.is(drain.Active)
		s.at(35 * second)
		s.is(drain.Unassigned)
	})
}

// A node counts as idle only when it has had no work for so long as Quiet says.
func TestQuiet(t *testing.T) {
	play(t, func(s *stage) {
		s.unfinished.Store(1)
		s.at(100 * second)
		s.unfinished.Store(0)
		s.at(400*second - 1)
		s.is(drain.Active)
		s.at(400 * second)
		s.is(drain.Draining)
		s.done() // comes and goes between two readings
		s.at(405 * second)
		s.is(drain.Active)
		s.at(715*second - 1)
		s.posted()
		s.at(715 * second)
		s.posted(715 * second)
	}, func(c *drain.Config) { c.Quiet = 300 * second })
}

// What was not in the batch stays: a job that is accepted, and one that ends, while the batch is on its way.
func TestClearsExactlyWhatWasFlushed(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed": true, "unnoticed": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				flushed, owed := s.done(), s.accept()
				s.finish(owed)
				var accepted, ended *job.Job
				s.takes(func(context.Context, message) (int, error) {
					if accepted == nil {
						if accepted = s.accept(); noticed {
							ended = s.done()
						}
					}
					return 200, nil
				})
				s.at(20 * second)
				m := s.posts()
				if len(m) != 1 || len(m[0].Ledger) != 2 {
					s.Fatalf("posted %+v", m)
				}
				s.has(true, owed, accepted)
				if noticed { // the node has work, so nothing is forgotten yet
					s.is(drain.Active)
					s.has(true, flushed, ended)
					s.settle(owed)
					s.at(40 * second)
					s.posted(35 * second)
					s.has(false, ended, owed)
				}
				s.is(drain.Unassigned)
				s.has(false, flushed)
				s.has(true, accepted)
			})
		})
	}
}

// Between hand-overs batches go out from time to time. Their jobs stay until the node is handed over, for which
// nothing needs to be posted any more.
func TestPeriodicBatches(t *testing.T) {
	play(t, func(s *stage) {
		s.unfinished.Store(1)
		var all []*job.Job
		for range 7 {
			all = append(all, s.done())
		}
		s.at(60 * second)
		m := s.posted(60*second, 60*second, 60*second) // a full batch has others behind it
		var sizes []int
		for _, batch := range m {
			sizes = append(sizes, len(batch.Ledger))
			if batch.Event != "ledger_batch" {
				s.Errorf("event %s", batch.Event)
			}
		}
		if !reflect.DeepEqual(sizes, []int{3, 3, 1}) {
			s.Errorf("batches of %v", sizes)
		}
		s.at(120 * second)
		s.posted()
		s.has(true, all...)
		s.unfinished.Store(0)
		s.at(135 * second)
		s.is(drain.Unassigned)
		s.posted()
		s.has(false, all...)
	}, every(60*second, 3))
}

// Every answer but 2xx, none, and one that does not come are tried again, and then with the next reading.
func TestSinkFails(t *testing.T) {
	for name, sink := range map[string]func(context.Context, message) (int, error){
		"answers 500": answers(500), "answers 404": answers(404), "answers 302": answers(302), "answers 199": answers(199),
		"answers 300": answers(300), "cannot be reached": func(context.Context, message) (int, error) { return 0, errors.New("refused") },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				j := s.done()
				s.takes(sink)
				s.at(36 * second)
				first := s.posted(20*second, 21050*ms, 23150*ms, 27350*ms, 35750*ms)
				s.is(drain.Draining)
				s.has(true, j)
				if v := s.drain.View(); v.Failures != 1 {
					s.Errorf("%+v", v)
				}
				s.takes(answers(201))
				s.at(40 * second)
				s.is(drain.Unassigned)
				s.has(false, j)
				for _, m := range s.posts() {
					if m.BatchID != first[0].BatchID || !reflect.DeepEqual(m.Ledger, first[0].Ledger) {
						s.Errorf("tried again with %+v after %+v", m, first[0])
					}
				}
				if v := s.drain.View(); v.Failures != 0 {
					s.Errorf("%+v", v)
				}
				s.logged("ledger not flushed", 1)
				s.logged("ledger can be flushed again", 1)
				for name, want := range map[string]float64{
					"aquifer_drain_batches_total": 2, "aquifer_drain_flushed_total": 1, "aquifer_drain_cleared_total": 1,
				} {
					if got := metrictest.Value(s, s.metrics, name); got != want {
						s.Errorf("%s: %v, want %v", name, got, want)
					}
				}
			}, func(c *drain.Config) { c.Jitter = func() float64 { return 0.5 } })
		})
	}
}

// A sink that hangs costs 30 s a try. The state follows the node meanwhile, new work ends what says that the node
// is idle, and so does the end of the node.
func TestSinkHangs(t *testing.T) {
	play(t, func(s *stage) {
		s.done()
		s.takes(hang)
		s.at(52 * second)
		s.posted(20*second, 51*second)
		s.unfinished.Store(1)
		s.at(55 * second)
		s.is(drain.Active)
		s.at(100 * second)
		s.posted()
		s.unfinished.Store(0)
		s.at(200 * second)
		s.is(drain.Draining)
		if n := len(s.posts()); n == 0 {
			s.Error("not tried again")
		}
	})
}

// A night without the sink is a few lines of log.
func TestSinkIsAwayForLong(t *testing.T) {
	play(t, func(s *stage) {
		s.done()
		s.takes(answers(503))
		s.at(8 * time.Hour)
		s.logged("ledger not flushed", 11)
		s.is(drain.Draining)
	})
}

// A batch that was told once keeps its id and its entries, whatever ends meanwhile, also over the end of the
// process; then the rest goes out.
func TestBatchIsToldAgainAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, every(10*second, 5))
		s.run()
		s.unfinished.Store(1)
		a, b := s.done(), s.done()
		s.takes(answers(500))
		s.at(12 * second)
		first := s.posted(10*second, 11*second)[0]
		c := s.done()
		s.stop()
		s.run()
		s.takes(answers(200))
		s.at(23 * second)
		again := s.posted(22 * second)
		if again[0].BatchID != first.BatchID || !reflect.DeepEqual(again[0].Ledger, first.Ledger) || len(first.Ledger) != 2 {
			t.Fatalf("told again as %+v, first as %+v", again[0], first)
		}
		s.at(33 * second)
		rest := s.posts()
		if len(rest) != 1 || len(rest[0].Ledger) != 1 || rest[0].Ledger[0].JobID != c.ID.String() {
			t.Fatalf("the rest: %+v", rest)
		}
		s.has(true, a, b, c)
		s.stop()
	})
}

// A crash after the sink has taken a batch, before that is recorded or before the jobs are cleared.
func TestCrashBetweenFlushAndClear(t *testing.T) {
	for method, again := range map[string]int{"LedgerFlushed": 1, "ClearFlushed": 0} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.run()
				j := s.done()
				s.disk.SetFault(storetest.Failing(method, 1, false))
				s.at(20 * second)
				first := s.posted(20 * second)[0]
				s.is(drain.Draining)
				s.has(true, j)
				s.stop()

				s.disk.SetFault(nil)
				s.run()
				accepted := s.accept()
				s.at(40 * second)
				m := s.posts()
				if len(m) != again || again == 1 && (m[0].BatchID != first.BatchID || !reflect.DeepEqual(m[0].Ledger, first.Ledger)) {
					t.Errorf("told again %+v, first %+v", m, first)
				}
				s.is(drain.Unassigned)
				s.has(false, j)
				s.has(true, accepted)
				s.stop()
			})
		})
	}
}

// A store that fails is asked again.
func TestStoreFails(t *testing.T) {
	for _, method := range []string{"LedgerBatch", "LedgerFlushed", "ClearFlushed"} {
		t.Run(method, func(t *testing.T) {
			play(t, func(s *stage) {
				j := s.done()
				s.disk.SetFault(storetest.Failing(method, 2, false))
				s.at(29 * second)
				s.is(drain.Draining)
				s.has(true, j)
				s.at(30 * second)
				s.is(drain.Unassigned)
				s.has(false, j)
			})
		})
	}
}

// At the end of the node all that is left is told. Nothing is cleared: the next process has it.
func TestLastFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, every(time.Hour, 2))
		s.run()
		jobs := []*job.Job{s.done(), s.done(), s.done()}
		s.stop()
		if err := s.drain.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		for _, m := range s.posted(0, 0) {
			if m.Event != "instance_idle" {
				t.Errorf("event %s", m.Event)
			}
		}
		s.has(true, jobs...)

		s.done()
		s.takes(hang)
		ctx, cancel := context.WithTimeout(t.Context(), 3*second)
		defer cancel()
		if err := s.drain.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a sink that hangs: %v", err)
		}
		s.at(3 * second)
		s.run()
		s.takes(answers(200))
		s.at(30 * second)
		s.is(drain.Unassigned)
		s.has(false, jobs...)
		s.stop()
	})
}

// A stop while the sink hangs, or between two tries, waits for neither.
func TestStopWhileFlushing(t *testing.T) {
	for name, sink := range map[string]func(context.Context, message) (int, error){"hangs": hang, "fails": answers(500)} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stage) {
				s.done()
				s.takes(sink)
				s.at(25 * second)
			})
		})
	}
}
