package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/port"
)

// setup is what a world is made of.
type setup struct {
	node       string // path of the program
	dir        string
	provider   string
	durability string
	size       int // nodes that there can be
	env        map[string]string
	times      times
}

// world is a fleet with everything around it. One goroutine, that of the scenario, changes it.
type world struct {
	setup

	net      *network
	callers  *callers
	ledger   *ledger
	sinks    *sinks
	valkey   *server
	members  []*member
	balancer *balancer
	http     *http.Client
	outside  []*door // of what is no node
	load     load

	noticed time.Duration // longest time until all others had noticed that a node is gone

	// mu guards disturbed, which is read while the scenario runs.
	mu        sync.Mutex
	disturbed []disturbance
}

// newWorld lays out a world; nothing in it runs yet but the sinks.
func newWorld(s setup) (w *world, err error) {
	w = &world{setup: s, net: newNetwork(), ledger: newLedger()}
	w.callers = &callers{processes: w.processes}
	w.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}}
	w.balancer = newBalancer(w.http)
	at := make(map[place][2]string) // where the others reach it, and where it is
	for _, p := range []place{target, receiver, valkey} {
		outer, inner, err := port.Pair()
		if err != nil {
			return nil, err
		}
		at[p] = [2]string{outer, inner}
		w.outside = append(w.outside, w.door(p, outer, inner, w.callers.of))
	}
	if w.sinks, err = newSinks(w.ledger, at[target][1], at[receiver][1]); err != nil {
		return nil, err
	}
	w.valkey = &server{dir: s.dir, listen: at[valkey][1], door: w.outside[2]}
	for i := range s.size {
		m, err := w.newMember(place(fmt.Sprintf("n%d", i+1)))
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.members = append(w.members, m)
		w.balancer.add(entrance{node: m.id, url: "http://" + m.calls})
	}
	for _, m := range w.members {
		w.introduce(m, "valkey://"+at[valkey][0])
	}
	w.load = load{
		target: "http://" + at[target][0], receiver: "http://" + at[receiver][0],
		balancer: w.balancer, http: w.http, ledger: w.ledger,
	}
	return w, nil
}

func (w *world) door(to place, addr, behind string, who func(net.Conn) (place, bool)) *door {
	return &door{to: to, addr: addr, behind: behind, net: w.net, who: who}
}

func (w *world) newMember(id place) (*member, error) {
	m := &member{id: id, path: w.node, dir: filepath.Join(w.dir, string(id)), http: w.http}
	var err error
	if m.peers, m.listen, err = port.Pair(); err != nil {
		return nil, err
	}
	if m.gossip, m.bind, err = port.Pair(); err != nil {
		return nil, err
	}
	if m.calls, err = port.Take(); err != nil {
		return nil, err
	}
	m.doors = []*door{
		w.door(id, m.peers, m.listen, w.callers.of), w.door(id, m.gossip, m.bind, w.callers.of), w.door(id, m.calls, m.listen, always(client)),
	}
	err = m.prepare()
	return m, err
}

// ether opens the way for the packets of a node.
func (w *world) ether(m *member) error {
	behind, err := netip.ParseAddrPort(m.bind)
	if err != nil {
		return err
	}
	m.air, err = newAir(&air{behind: behind, to: m.id, net: w.net, who: w.speaker}, m.gossip)
	return err
}

// introduce gives a node its settings.
func (w *world) introduce(m *member, valkeyURL string) {
	m.env = m.settings(w.durability)
	m.env["AQUIFER_VALKEY_URL"] = valkeyURL
	m.env["AQUIFER_CLUSTER_PROVIDER"] = w.provider
	providers()[w.provider](m, w.members, valkeyURL)
	for name, value := range w.env {
		m.env[name] = value
	}
}

// processes are the ids of the processes of the nodes that run.
func (w *world) processes() map[place]int {
	ids := make(map[place]int)
	for _, m := range w.members {
		if p := m.running(); p != nil {
			ids[m.id] = p.ID()
		}
	}
	return ids
}

// speaker tells which node has sent a packet.
func (w *world) speaker(from netip.AddrPort) (place, bool) {
	for _, m := range w.members {
		if m.bind == from.String() {
			return m.id, true
		}
	}
	return "", false
}

// start runs everything, with the first nodes.
func (w *world) start(ctx context.Context, nodes int) error {
	for _, d := range w.outside {
		if d.to != valkey { // which opens its own
			if err := d.open(); err != nil {
				return err
			}
		}
	}
	for _, m := range w.members {
		if err := w.ether(m); err != nil {
			return err
		}
	}
	if err := w.valkey.start(ctx); err != nil {
		return err
	}
	return w.startNodes(ctx, w.members[:nodes]...)
}

// startNodes starts nodes side by side: they may wait for each other.
func (w *world) startNodes(ctx context.Context, list ...*member) error {
	errs := make([]error, len(list))
	var starts sync.WaitGroup
	for i, m := range list {
		starts.Go(func() { errs[i] = m.start(ctx) })
	}
	starts.Wait()
	return errors.Join(errs...)
}

// up are the nodes that run.
func (w *world) up() []*member {
	return slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return m.running() == nil })
}

// close ends everything that runs.
func (w *world) close() error {
	for _, m := range w.members {
		m.kill()
		if m.air != nil {
			m.air.close()
		}
	}
	w.valkey.kill()
	for _, d := range w.outside {
		d.close()
	}
	w.net.heal(context.Background())
	w.http.CloseIdleConnections()
	return w.sinks.close()
}

// destroy removes what a node has stored.
func (m *member) destroy() error {
	if err := os.RemoveAll(m.data()); err != nil {
		return fmt.Errorf("volume of %s: %w", m.id, err)
	}
	return nil
}
