package events

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Config is what a Hub is built from.
type Config struct {
	// Wait is how long End waits for a confirmation. Higher: fewer results go out twice, through a
	// stream and a webhook; lower: a result whose stream is dead goes out sooner.
	Wait time.Duration
	// Buffer is how many events a listener may lag behind before it loses progress; 0 means 16.
	Buffer     int
	Registerer prometheus.Registerer // nil: no metrics
}

// Hub carries events from those who work on jobs to those who listen. It is safe for concurrent use.
type Hub struct {
	config  Config
	metrics metrics
	shards  [shards]shard
	closed  chan struct{} // closed by CloseAll
	closing sync.Once
}

const (
	shards        = 64
	defaultBuffer = 16
)

// shard holds the listeners of a part of the jobs, so that publishers rarely meet.
type shard struct {
	// mu guards the topics and everything in them and their subscriptions: that an event reaches
	// every listener of its moment in order, and that the end is decided once.
	mu     sync.Mutex
	topics map[job.ID]*topic
	// busy is len(topics), for publishers to pass by without the lock when it is zero. It is raised
	// before Subscribe returns, which is all that a listener is promised.
	busy atomic.Int32
}

// topic is one job that somebody listens to. Its shard's mutex guards it.
type topic struct {
	listeners []*Subscription
	confirmed bool
	// patient is how many of them are waited for beyond Config.Wait; late tells that it is over.
	patient int
	late    bool
	// settled is closed when a listener confirms or the last one leaves; nil unless End waits.
	settled chan struct{}
}

// New returns a hub without listeners.
func New(c Config) *Hub {
	if c.Buffer <= 0 {
		c.Buffer = defaultBuffer
	}
	h := &Hub{config: c, metrics: newMetrics(c.Registerer), closed: make(chan struct{})}
	for i := range h.shards {
		h.shards[i].topics = make(map[job.ID]*topic)
	}
	return h
}

// shard returns the shard of a job; the last byte of an id is random.
func (h *Hub) shard(id job.ID) *shard { return &h.shards[id[len(id)-1]%shards] }

// Listening reports whether anybody listens to the job. A listener that comes later finds in the
// store what was not published.
func (h *Hub) Listening(id job.ID) bool {
	sh := h.shard(id)
	if sh.busy.Load() == 0 {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.topics[id] != nil
}

// Publish tells the listeners of a job an event. It must already be in the store if it is to be
// found there. Publish never waits for a listener. After the end of the job nobody is told anything.
func (h *Hub) Publish(id job.ID, e Event) {
	sh := h.shard(id)
	if sh.busy.Load() == 0 {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h.tell(sh, id, e)
}

// End tells the listeners the end of their job and reports whether one of them confirmed that its
// client has it. It waits for that, but at most Config.Wait, longer for a patient listener alone, not beyond ctx, and
// only as long as somebody listens.
func (h *Hub) End(ctx context.Context, id job.ID, e Event) (confirmed bool) {
	sh := h.shard(id)
	if sh.busy.Load() == 0 {
		return false
	}
	sh.mu.Lock()
	t := h.tell(sh, id, e)
	if t == nil {
		sh.mu.Unlock()
		return false
	}
	settled := make(chan struct{})
	t.settled = settled
	if t.confirmed { // by a listener that found the end in the store
		t.settle()
	}
	sh.mu.Unlock()

	timer := time.NewTimer(h.config.Wait)
	defer timer.Stop()
	select {
	case <-settled:
	case <-ctx.Done():
	case <-timer.C:
		if sh.late(t) {
			break
		}
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t.settled = nil
	return t.confirmed
}

// late notes that Config.Wait is over, and reports whether that ends the wait.
func (sh *shard) late(t *topic) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t.late = true
	return t.patient == 0
}

// tell puts an event before every listener of a job and returns their topic; nil if there is none.
// With its end the job loses its topic: whoever comes later finds the end in the store.
func (h *Hub) tell(sh *shard, id job.ID, e Event) *topic {
	t := sh.topics[id]
	if t == nil {
		return nil
	}
	for _, s := range t.listeners {
		h.metrics.dropped.Add(float64(s.put(e, h.config.Buffer)))
	}
	if e.Terminal() {
		sh.remove(id, t)
	}
	return t
}

// wait has the end of the job wait for a listener for as long as it stays.
func (h *Hub) wait(s *Subscription) {
	sh := h.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !s.patient && !s.left {
		s.patient = true
		s.topic.patient++
	}
}

// Subscribe opens a listener's subscription to what happens to a job from now on.
func (h *Hub) Subscribe(id job.ID) *Subscription {
	s := &Subscription{hub: h, id: id, ready: make(chan struct{}, 1)}
	sh := h.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.topic = sh.topics[id]
	if s.topic == nil {
		s.topic = &topic{}
		sh.topics[id] = s.topic
		sh.busy.Add(1)
	}
	s.topic.listeners = append(s.topic.listeners, s)
	h.metrics.open.Inc()
	return s
}

// leave takes a listener out of its topic.
func (h *Hub) leave(s *Subscription) {
	sh := h.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := slices.Index(s.topic.listeners, s)
	if at < 0 {
		return
	}
	h.metrics.open.Dec()
	s.left = true
	s.wake()
	s.topic.listeners = slices.Delete(s.topic.listeners, at, at+1)
	if s.patient {
		s.topic.patient--
	}
	if s.topic.late && s.topic.patient == 0 {
		s.topic.settle()
	}
	if len(s.topic.listeners) == 0 {
		sh.remove(s.id, s.topic)
		s.topic.settle()
	}
}

// confirm notes that a listener's client has the end of the job.
func (h *Hub) confirm(s *Subscription) {
	sh := h.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.topic.confirmed = true
	s.topic.settle()
}

// CloseAll ends every subscription, open or to come, once its listener has taken what it was told
// already. Work goes on: publishing stays allowed. Calling it again does nothing.
func (h *Hub) CloseAll() { h.closing.Do(func() { close(h.closed) }) }

// remove forgets a topic if it is still the one of its job.
func (sh *shard) remove(id job.ID, t *topic) {
	if sh.topics[id] == t {
		delete(sh.topics, id)
		sh.busy.Add(-1)
	}
}

// settle ends the wait for a confirmation.
func (t *topic) settle() {
	if t.settled != nil {
		close(t.settled)
		t.settled = nil
	}
}
