package pace

import (
	"net/http"
	"slices"
	"time"
)

// sim plays a target and those who share it in virtual time. A job that fails goes back to the end of its
// tenant's queue at once.
type sim struct {
	target  *Target[*party]
	now     time.Duration // since start
	parties []*party
	open    []call
	busiest int // most calls that were open at one time
	early   int // calls that started while their tenant was to wait
}

// party is a tenant with a number of jobs.
type party struct {
	flow   Flow[*party]
	name   string
	jobs   int
	reply  reply
	sent   int
	failed int
	starts []time.Duration
	busy   time.Duration // for how long its calls were open
}

// reply is what the target answers.
type reply struct {
	took   time.Duration
	status int
	header http.Header
}

type call struct {
	slot  Slot[*party]
	by    *party
	reply reply
	ends  time.Duration
}

func newSim(s Settings) *sim { return &sim{target: NewTarget[*party](s)} }

// party returns a tenant, new if need be. It is answered as fast as can be.
func (s *sim) party(name string) *party {
	for _, p := range s.parties {
		if p.name == name {
			return p
		}
	}
	p := &party{name: name, reply: reply{status: 200}}
	p.flow.Lane = p
	s.parties = append(s.parties, p)
	return p
}

func (s *sim) at() time.Time { return start.Add(s.now) }

// add queues jobs of a tenant.
func (s *sim) add(p *party, jobs int) {
	p.jobs += jobs
	s.target.Add(&p.flow)
}

// run plays for so long.
func (s *sim) run(span time.Duration) {
	for end := s.now + span; ; {
		next := s.pump()
		if len(s.open) > 0 {
			next = min(next, s.open[0].ends)
		}
		if next > end {
			s.now = end
			return
		}
		s.now = next
		for len(s.open) > 0 && s.open[0].ends <= s.now {
			s.end()
		}
	}
}

// pump starts what may start, and returns when to look again.
func (s *sim) pump() time.Duration {
	for {
		f, w := s.target.Next(s.at())
		for range 2 {
			s.target.Forget(s.at())
		}
		switch {
		case f == nil && w.For > 0:
			return s.now + w.For
		case f == nil:
			return 1 << 62
		case f.Lane.jobs == 0:
			s.target.Skip(s.at())
		default:
			s.start(f.Lane)
		}
	}
}

func (s *sim) start(p *party) {
	p.jobs--
	p.sent++
	p.starts = append(p.starts, s.now)
	if p.flow.CoolsUntil().After(s.at()) {
		s.early++
	}
	c := call{s.target.Start(1, p.jobs > 0, s.at()), p, p.reply, s.now + p.reply.took}
	at := len(s.open)
	for at > 0 && s.open[at-1].ends > c.ends {
		at--
	}
	s.open = slices.Insert(s.open, at, c)
	s.busiest = max(s.busiest, len(s.open))
}

// end ends the call that is first to end.
func (s *sim) end() {
	c := s.open[0]
	s.open = s.open[1:]
	c.by.busy += c.reply.took
	failed := c.reply.status >= 500 || c.reply.status == 429
	s.target.Done(c.slot, ReadSignal(c.reply.status, failed, c.reply.header, s.at()), s.at())
	if failed {
		c.by.failed++
		s.add(c.by, 1)
	}
}

// starts returns when anything started.
func (s *sim) starts() []time.Time {
	var all []time.Time
	for _, p := range s.parties {
		for _, d := range p.starts {
			all = append(all, at(d))
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}
