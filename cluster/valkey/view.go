package valkey

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

var (
	// ErrNotRunning is why an announcement reached nobody: Run has not begun, or has ended.
	ErrNotRunning = errors.New("the Valkey provider does not run")
	// ErrRunning is what a second Run returns while the first one runs.
	ErrRunning = errors.New("the Valkey provider runs already")
)

const (
	// retryPause is the longest wait after a beat that failed.
	retryPause = 500 * time.Millisecond
	// watchPause is the shortest wait between two beats, while the heartbeat of a member that is gone ends.
	watchPause = 20 * time.Millisecond
)

// View is a cluster.View and a cluster.Placement that Valkey holds together while Run runs.
type View struct {
	*cluster.Board
	cfg     Config
	store   *store
	tenants *tenants
	metrics *metrics

	running atomic.Bool
	poke    chan struct{} // wakes Run, which has something to tell or to hear
	lease   *lease
	// trouble is why the last beat that was tried failed; nil if it did not.
	trouble atomic.Pointer[error]

	// beating makes beats come one after the other, so that an old state never replaces a new one, and
	// guards known, forgot and present.
	beating sync.Mutex
	known   known
	forgot  bool // Valkey has lost its data since known was learned
	present bool // Valkey may have a heartbeat of this node

	left sync.Map // of ids: members that have left, since known was learned

	adopting time.Time // when to look for unknown tenants again; Run's

	// placing keeps the release of idle tenants apart from placements, which could be of the same ones.
	placing sync.RWMutex
}

var (
	_ cluster.View      = (*View)(nil)
	_ cluster.Placement = (*View)(nil)
)

// New returns the view of a node that is not in the cluster yet. The error says what is wrong with the
// configuration.
func New(c Config) (*View, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	v := &View{
		Board: cluster.NewBoard(c.Self), cfg: c, store: newStore(c), poke: make(chan struct{}, 1), lease: newLease(c.TTL),
	}
	v.tenants = newTenants(c)
	v.metrics = newMetrics(c.Registerer, v.tenants, v.Board)
	return v, nil
}

// Run joins the cluster, keeps the node in it, and leaves when ctx ends. Valkey may be away at any
// time. The error is ErrRunning.
func (v *View) Run(ctx context.Context) error {
	if !v.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer v.leave(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { v.consult(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for upkeep := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-v.poke:
		}
		err := v.beat(ctx)
		if now := time.Now(); err == nil && v.lease.at(now) != out && (v.tenants.wanted() || !now.Before(upkeep)) {
			v.renew(ctx, now)
			upkeep = now.Add(v.cfg.Heartbeat)
		}
		timer.Reset(v.pause(err))
	}
}

// pause is how long to wait for the next beat: a heartbeat, or until it shows whether a member is gone, or until the
// node's word does not bind it any more.
func (v *View) pause(failure error) time.Duration {
	if failure != nil {
		return min(v.cfg.Heartbeat, retryPause)
	}
	now := time.Now()
	if held := v.lease.held(now); held > 0 {
		return min(v.cfg.Heartbeat, held)
	}
	v.beating.Lock()
	defer v.beating.Unlock()
	return max(v.known.nextEnd(v.cfg.Self.ID, now.Add(v.cfg.Heartbeat)).Sub(now), watchPause)
}

// beat tells the others of this node and learns of them.
func (v *View) beat(ctx context.Context) error {
	v.beating.Lock()
	defer v.beating.Unlock()
	if !v.running.Load() {
		return ErrNotRunning
	}
	now, self := time.Now(), v.self()
	v.present = true // also if this fails, for it may have happened all the same
	h, err := v.store.beat(ctx, self, v.cfg.TTL)
	if err != nil {
		v.failed(ctx, "beat", err)
		if ctx.Err() == nil {
			v.lease.miss()
			if !errors.Is(err, link.ErrDown) { // which says less than the one before
				v.trouble.Store(&err)
			}
		}
		v.doubt()
		return err
	}
	if h.taken != "" {
		v.present = false
		v.lease.drop()
		v.show(v.known.learn(h.members, 0, now, time.Now()), &cluster.TakenError{ID: self.ID, Address: h.taken})
		return nil
	}
	v.learn(ctx, h, now)
	return nil
}

// learn makes use of an answer to a beat that was sent at now; v.beating is held.
func (v *View) learn(ctx context.Context, h heard, now time.Time) {
	before, after := v.lease.beaten(now)
	v.trouble.Store(nil)
	v.forgot = before != out && (v.forgot || !h.known)
	switch {
	case before == out: // others may have taken over meanwhile
		v.tenants.askAgain()
	case before == frozen: // nobody has
		v.tenants.takeBack()
	case !h.known:
		v.cfg.Logger.WarnContext(ctx, "valkey has lost its data")
		v.tenants.takeBack()
	}
	if after != fresh {
		return // who relies on this node's word goes on with what was known
	}
	var forgot time.Duration
	if v.forgot {
		forgot = v.cfg.TTL
	}
	v.show(v.known.learn(h.members, forgot, now, time.Now()), nil)
	v.forgot = false
	v.left.Clear()
	v.mark(time.Now())
}

// self is this node with its load of now.
func (v *View) self() cluster.Member {
	self := v.Board.Roster().Self
	self.ActiveTenants = v.tenants.own()
	if v.cfg.Load != nil {
		self.ActiveTenants = max(self.ActiveTenants, v.cfg.Load())
	}
	return self
}

// show makes k the roster; v.beating is held.
func (v *View) show(k known, unsettled error) {
	v.known = k
	members, left := k.members(), k.left()
	load := v.self().ActiveTenants
	v.Edit(func(r *cluster.Roster) {
		r.Self.ActiveTenants, r.Members, r.Left, r.Unsettled = load, members, left, unsettled
	})
}

// doubt makes the roster unsettled if it can no longer be relied on.
func (v *View) doubt() {
	now := time.Now()
	if v.lease.at(now) != out {
		return
	}
	v.mark(now)
	v.Edit(func(r *cluster.Roster) {
		_, taken := errors.AsType[*cluster.TakenError](r.Unsettled)
		if !taken { // which is what an operator has to mend first
			r.Unsettled = v.silent()
		}
	})
}

// why is why the last beat failed; nil if it did not.
func (v *View) why() error {
	if err := v.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// silent is why the roster is unsettled of a node that Valkey does not serve.
func (v *View) silent() error {
	if why := v.why(); link.Refuses(why) || errors.Is(why, errNoHashTag) {
		return fmt.Errorf("valkey refuses: %w", why)
	}
	if v.lease.heard().IsZero() {
		return errors.New("valkey has not answered yet")
	}
	return fmt.Errorf("valkey has not answered for %v", v.cfg.TTL)
}

// Roster returns what is known now. One that is too old is unsettled, also when the process was stopped
// meanwhile and Run has not noticed yet.
func (v *View) Roster() *cluster.Roster {
	r := v.Board.Roster()
	if r.Unsettled == nil && v.lease.at(time.Now()) == out {
		v.doubt()
		r = v.Board.Roster()
	}
	return r
}

// Announce makes s the state of this node and tells Valkey, from where the others take it with their next
// beats.
func (v *View) Announce(ctx context.Context, s cluster.State) error {
	v.Edit(func(r *cluster.Roster) { r.Self.State = s })
	err := v.beat(ctx)
	if err != nil {
		v.wake()
	}
	return err
}

// wake has the next beat come at once.
func (v *View) wake() {
	select {
	case v.poke <- struct{}{}:
	default:
	}
}

// leave takes the node out of the cluster.
func (v *View) leave(ctx context.Context) {
	v.beating.Lock()
	defer v.beating.Unlock()
	v.running.Store(false)
	if v.present {
		if err := v.store.leave(ctx, v.Board.Roster().Self); err != nil {
			v.failed(ctx, "leave", err)
		}
	}
	v.present, v.known = false, nil
	v.lease.drop()
	v.Edit(func(r *cluster.Roster) { r.Members, r.Stale, r.Unsettled = nil, time.Time{}, ErrNotRunning })
}

// failed counts and logs a call that failed because of Valkey, not because its caller has gone.
func (v *View) failed(ctx context.Context, call string, err error) {
	if ctx.Err() != nil {
		return
	}
	v.metrics.failed(call)
	v.cfg.Logger.DebugContext(ctx, "valkey call failed", "call", call, "error", err)
}

// Failures is how many calls of Valkey have failed.
func (v *View) Failures() int64 { return v.metrics.total.Load() }
