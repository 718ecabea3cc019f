package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/aquifer-fleet/aquifer/cluster"
)

var (
	// ErrNotRunning is why an announcement reached nobody: Run has not begun, or has ended.
	ErrNotRunning = errors.New("the gossip does not run")
	// ErrRunning is what a second Run returns while the first one runs.
	ErrRunning = errors.New("the gossip runs already")
)

// View is a cluster.View that gossips while Run runs.
type View struct {
	*cluster.Board
	cfg     Config
	deps    Deps
	codec   codec
	bind    netip.AddrPort
	join    []place
	metrics metrics

	running atomic.Bool
	// poke wakes the session that has something to tell.
	poke chan struct{}

	// mu guards untold: those who wait until the others have been told of the newest state.
	mu     sync.Mutex
	untold []chan error
}

// New returns the view of a node that does not gossip yet. The error names every setting that is wrong.
func New(cfg Config, deps Deps) (*View, error) {
	v := &View{cfg: cfg, deps: deps.withDefaults(), poke: make(chan struct{}, 1)}
	v.cfg.Tuning = cfg.Tuning.withDefaults()
	v.cfg.Keys = slices.Clone(cfg.Keys)
	address, errAddress := cluster.ParseAddress(cfg.Self.Address)
	if errAddress == nil {
		v.cfg.Self.Address = address
	}
	var errCodec, errBind error
	v.codec, errCodec = newCodec()
	v.bind, errBind = parseBind(cfg.Bind)
	err := errors.Join(v.cfg.Self.Check(), errCodec, errBind, CheckAdvertise(cfg.Advertise), v.setJoin(), v.checkKeys())
	if err == nil {
		err = v.codec.checkSize(v.cfg.Self)
	}
	if err != nil {
		return nil, err
	}
	v.Board = cluster.NewBoard(v.cfg.Self)
	v.metrics = newMetrics(deps.Registerer)
	return v, nil
}

func (v *View) setJoin() error {
	var errs []error
	for _, s := range v.cfg.Join {
		p, err := parsePlace(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("join: %w", err))
		}
		p.port = cmp.Or(p.port, v.bind.Port(), DefaultPort)
		v.join = append(v.join, p)
	}
	return errors.Join(errs...)
}

func (v *View) checkKeys() error {
	var errs []error
	for i, k := range v.cfg.Keys {
		if memberlist.ValidateKey(k) != nil {
			errs = append(errs, fmt.Errorf("gossip key %d must have 16, 24 or 32 bytes, got %d", i+1, len(k)))
		}
	}
	return errors.Join(errs...)
}

// Announce makes s the state of this node, and waits until it was sent to other members or ctx ends. Sent is
// not received: who misses it hears of it with the next comparison.
func (v *View) Announce(ctx context.Context, s cluster.State) error {
	v.Edit(func(r *cluster.Roster) { r.Self.State = s })
	if !v.running.Load() {
		return ErrNotRunning
	}
	told := make(chan error, 1)
	v.wait(told)
	if !v.running.Load() {
		return ErrNotRunning // Run has ended meanwhile, and may not have seen who waits
	}
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *View) wake() {
	select {
	case v.poke <- struct{}{}:
	default:
	}
}

// wait has the others told of the newest state, and then those who wait for it.
func (v *View) wait(told ...chan error) {
	v.mu.Lock()
	v.untold = append(v.untold, told...)
	v.mu.Unlock()
	v.wake()
}

// waiting takes those who wait for the newest state to be told.
func (v *View) waiting() []chan error {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.untold
	v.untold = nil
	return list
}

// Run gossips until ctx ends, then tells the others that the node leaves. It returns when all of that is over, and
// may be called again then. The error says that the port could not be opened.
func (v *View) Run(ctx context.Context) error {
	if !v.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer func() {
		v.running.Store(false)
		for _, told := range v.waiting() {
			told <- ErrNotRunning
		}
		v.Edit(func(r *cluster.Roster) { r.Members, r.Unsettled = nil, ErrNotRunning })
	}()
	if len(v.cfg.Keys) == 0 {
		v.deps.Logger.Warn("the gossip is not encrypted: who reaches its port can add and remove members")
	}
	known := make(map[netip.AddrPort]time.Time)
	for {
		again, err := v.session(ctx, known)
		if err != nil || !again {
			return err
		}
	}
}
