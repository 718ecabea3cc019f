package cluster

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// field are those among whom owners are chosen: the members of a roster, and the missing. It never
// changes.
type field struct {
	roster *Roster
	// number tells one field from the next.
	number uint64
	// members are in ascending order of ids.
	members []Member
	missing []missing
	// gone are those that were members, to this node; others may have them yet.
	gone []departed
	// until is when the field has to be looked at again although the roster is the same; zero for
	// never.
	until time.Time
}

// missing is a member that was in the roster and is not any more.
//
// Membership is hearsay: a node that was active may be missing to one while the others see it. As long as it
// can be connected to, it is the owner of its tenants for all. So it stays among the candidates for a while,
// and for as long as it answers; a connection that fails settles the matter.
type missing struct {
	member Member
	until  time.Time
}

// departed is a member as it was when it went; Offline if it said that it leaves.
type departed struct {
	member Member
	at     time.Time
	stayed int // members that were there then
}

// rememberedFor and rememberedMost bound what is known of those that have gone: they may come back with what they
// hold, for as long as a job waits by default.
const (
	rememberedFor  = 24 * time.Hour
	rememberedMost = 1000
)

func (f *field) member(id string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(f.members, id, byID)
	if !ok {
		return Member{}, false
	}
	return f.members[i], true
}

func byID(m Member, id string) int { return strings.Compare(m.ID, id) }

// fields makes the field of the moment.
//
// mu makes a step from one field to the next one step.
type fields struct {
	view    View
	grace   time.Duration // for a missing member
	current atomic.Pointer[field]
	mu      sync.Mutex
}

func (s *fields) now() *field {
	r, f := s.view.Roster(), s.current.Load()
	if f != nil && f.roster.Epoch == r.Epoch && (f.until.IsZero() || time.Now().Before(f.until)) {
		return f
	}
	return s.step("")
}

// heard prolongs the time of a missing member.
func (s *fields) heard(id string) {
	if f := s.current.Load(); f != nil && slices.ContainsFunc(f.missing, func(m missing) bool { return m.member.ID == id }) {
		s.step(id)
	}
}

// step makes the next field, with more time for the missing member of id heard.
func (s *fields) step(heard string) *field {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, last := s.view.Roster(), s.current.Load()
	if last == nil {
		last = &field{roster: r}
	}
	next := &field{roster: r, number: last.number + 1, members: slices.Clone(r.Members)}
	for _, m := range s.stillMissing(last, heard, now) {
		i, there := slices.BinarySearchFunc(next.members, m.member.ID, byID)
		if !there && !slices.Contains(r.Left, m.member.ID) {
			next.members = slices.Insert(next.members, i, m.member)
			next.missing = append(next.missing, m)
			if next.until.IsZero() || m.until.Before(next.until) {
				next.until = m.until
			}
		}
	}
	next.gone = stillGone(last, next, now)
	s.current.Store(next)
	return next
}

// stillGone are those that have left the last field, now or before, and are not back.
func stillGone(last, next *field, now time.Time) []departed {
	list := slices.Clone(last.gone)
	for _, m := range last.members {
		if slices.Contains(next.roster.Left, m.ID) {
			m.State = Offline
		}
		list = append(list, departed{m, now, len(next.members)})
	}
	list = slices.DeleteFunc(list, func(d departed) bool {
		_, back := next.member(d.member.ID)
		return back || now.Sub(d.at) > rememberedFor
	})
	return list[max(0, len(list)-rememberedMost):]
}

// hasLeft reports whether a member has said that it leaves, and went no longer ago than within.
func (f *field) hasLeft(id string, within time.Duration) bool {
	return slices.ContainsFunc(f.gone, func(d departed) bool {
		return d.member.ID == id && d.member.State != Active && time.Since(d.at) < within
	})
}

// goneWith are the ids of those that have gone and may have something: the likely ones, and whoever died later than it came
// into being, since it may have been handed over to them. Who leaves hands it on, which may take until handed.
func (f *field) goneWith(since time.Time, handed time.Duration, likely func(id string) bool) (ids []string) {
	for _, d := range f.gone {
		got := !since.IsZero() && since.Before(d.at) && (d.member.State == Active || time.Since(d.at) < handed)
		if (got || likely(d.member.ID)) && time.Since(d.at) < rememberedFor {
			ids = append(ids, d.member.ID)
		}
	}
	return ids
}

// stillMissing are those of the last field that are missing if they are not in the roster.
func (s *fields) stillMissing(last *field, heard string, now time.Time) []missing {
	var list []missing
	for _, m := range last.missing {
		if m.member.ID == heard {
			m.until = now.Add(s.grace)
		}
		if now.Before(m.until) {
			list = append(list, m)
		}
	}
	for _, m := range last.roster.Members {
		if m.State == Active {
			list = append(list, missing{m, now.Add(s.grace)})
		}
	}
	return list
}
