package gossip

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/memberlist"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// card is what a node tells of itself; its id is its name in the gossip. The numbers of the fields stay for ever,
// and a new field has a usable zero, so that nodes of two releases understand each other.
type card struct {
	Address  string        `cbor:"1,keyasint"`
	Region   string        `cbor:"2,keyasint,omitempty"`
	State    cluster.State `cbor:"3,keyasint,omitempty"`
	Capacity int           `cbor:"4,keyasint,omitempty"`
	Tenants  int           `cbor:"5,keyasint,omitempty"`
	Version  string        `cbor:"6,keyasint,omitempty"`
	// Started is when the process began to gossip, in Unix ms. Of two nodes with one id, the one
	// that started later yields, all else being equal.
	Started int64 `cbor:"7,keyasint,omitempty"`
	// Settled: the node relies on its roster. One that does goes before one that does not.
	Settled bool `cbor:"8,keyasint,omitempty"`
}

// tidings are what a card tells.
type tidings struct {
	member  cluster.Member
	started time.Time
	settled bool
}

// cardFormat is the first byte of a card and of a roll. It changes only with what an older release would misunderstand.
const cardFormat = 1

var (
	errNoCard     = errors.New("the metadata is empty")
	errCardFormat = errors.New("the metadata is of another format")
)

// roll is what a node adds when it compares all it knows with another one to join it, or be joined.
type roll struct {
	From string `cbor:"1,keyasint"`
	// Seen are the other nodes that From has seen, by id.
	Seen map[string]sighting `cbor:"2,keyasint,omitempty"`
}

// sighting tells one process from all others that have had its id: where it gossips, and when it was
// started, in Unix ms.
type sighting struct {
	At      string `cbor:"1,keyasint"`
	Started int64  `cbor:"2,keyasint"`
}

// maxRoll bounds how many nodes of a roll are read.
const maxRoll = 1 << 14

// codec reads and writes cards and rolls.
type codec struct{ dec cbor.DecMode }

func newCodec() (codec, error) {
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		MaxNestedLevels: 4, MaxArrayElements: 16, MaxMapPairs: maxRoll,
	}.DecMode()
	return codec{dec}, err
}

func (codec) encode(t tidings) ([]byte, error) {
	m := t.member
	b, err := cbor.Marshal(card{m.Address, m.Region, m.State, m.Capacity, m.ActiveTenants, m.Version, t.started.UnixMilli(), t.settled})
	return append([]byte{cardFormat}, b...), err
}

// decode reads the card of the node of that id, which may say anything.
func (c codec) decode(id string, b []byte) (tidings, error) {
	if len(b) == 0 {
		return tidings{}, errNoCard
	}
	if b[0] != cardFormat {
		return tidings{}, fmt.Errorf("%w: %d", errCardFormat, b[0])
	}
	var k card
	if err := c.dec.Unmarshal(b[1:], &k); err != nil {
		return tidings{}, err
	}
	address, err := cluster.ParseAddress(k.Address)
	if err != nil {
		return tidings{}, err
	}
	m := cluster.Member{
		ID: id, Address: address, Region: k.Region, State: k.State,
		Capacity: k.Capacity, ActiveTenants: k.Tenants, Version: k.Version,
	}
	return tidings{m, time.UnixMilli(k.Started), k.Settled}, m.Check()
}

func (codec) encodeRoll(r roll) ([]byte, error) {
	b, err := cbor.Marshal(r)
	return append([]byte{cardFormat}, b...), err
}

func (c codec) decodeRoll(b []byte) (roll, error) {
	if len(b) == 0 || b[0] != cardFormat {
		return roll{}, errCardFormat
	}
	var r roll
	err := c.dec.Unmarshal(b[1:], &r)
	return r, err
}

// checkSize says what is wrong with a member that has too much to tell.
func (c codec) checkSize(m cluster.Member) error {
	m.State, m.ActiveTenants = cluster.Draining, math.MaxInt
	b, err := c.encode(tidings{m, time.UnixMilli(math.MaxInt64), true})
	if err == nil && len(b) > memberlist.MetaMaxSize {
		err = fmt.Errorf("address, region and version of a node must fit into %d bytes of gossip, they take %d too many",
			memberlist.MetaMaxSize, len(b)-memberlist.MetaMaxSize)
	}
	return err
}
