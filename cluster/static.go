package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Static is a View whose members are written in the configuration. It notices neither death nor drain
// of another member; a Forwarder finds out when it gets there. All members have the same weight, since
// no node knows what another one is configured with.
type Static struct{ *Board }

// NewStatic returns the view of a node among the listed members, which may include it. It is settled
// from the start. A list that says something else of the node than the node itself is refused: the others, who
// have the same list, would look for it in another place.
func NewStatic(self Member, listed []Member) (*Static, error) {
	self.Capacity = 0
	err := self.Check()
	members := []Member{self}
	for _, m := range listed {
		err = errors.Join(err, m.Check(), contradiction(self, m))
		if m.ID != self.ID {
			members = append(members, Member{ID: m.ID, Address: m.Address, Region: self.Region, State: Active})
		}
	}
	if err != nil {
		return nil, err
	}
	s := &Static{NewBoard(self)}
	s.Edit(func(r *Roster) { r.Members, r.Unsettled = members, nil })
	return s, nil
}

// contradiction says what a listed member says of a node that the node does not. What is wrong with an address by
// itself is for Check to say.
func contradiction(self, listed Member) error {
	here, _ := ParseAddress(self.Address)
	there, _ := ParseAddress(listed.Address)
	switch {
	case here == "" || there == "" || (self.ID == listed.ID) == (here == there):
		return nil
	case here == there:
		return fmt.Errorf("member %s has the address of this node, %s, which is %s", listed.ID, here, self.ID)
	default:
		return fmt.Errorf("member %s is this node, whose address is %s, got %s", self.ID, here, there)
	}
}

// Announce changes the node's own roster; there is nobody to tell.
func (s *Static) Announce(_ context.Context, state State) error {
	s.Edit(func(r *Roster) { r.Self.State = state })
	return nil
}

// ParseMembers reads a list of members: "id=http://host:port,…". White space around an entry, empty
// entries and one trailing slash of an address do not count. The error names every entry that is wrong.
func ParseMembers(list string) ([]Member, error) {
	var members []Member
	var errs []error
	seen, at := make(map[string]bool), make(map[string]string)
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		m, err := parseMember(entry)
		switch {
		case err != nil:
		case seen[m.ID]:
			err = fmt.Errorf("the id %s stands there twice", m.ID)
		case at[m.Address] != "":
			err = fmt.Errorf("the address %s is that of %s, too", m.Address, at[m.Address])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("member %q: %w", withoutUser(entry), err))
			continue
		}
		seen[m.ID], at[m.Address] = true, m.ID
		members = append(members, m)
	}
	return members, errors.Join(errs...)
}

func parseMember(entry string) (Member, error) {
	id, address, ok := strings.Cut(entry, "=")
	if !ok {
		return Member{}, errors.New("a member must be id=http://host:port")
	}
	if err := CheckID(id); err != nil {
		return Member{}, err
	}
	address, err := ParseAddress(address)
	return Member{ID: id, Address: address, State: Active}, err
}
