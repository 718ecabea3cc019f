package valkey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

// errNoHashTag tells what a Valkey Cluster lacks.
var errNoHashTag = errors.New("a Valkey Cluster needs a hash tag, so that the keys of one script are in one place")

// store is what the nodes of a region share. It has no state but its connection.
type store struct {
	link   *link.Link
	prefix string
	tagged bool // the prefix has a hash tag

	beatLua, leaveLua, assignLua, renewLua, releaseLua *valkey.Lua
}

func newStore(c Config) *store {
	return &store{
		link: c.Link, prefix: c.Prefix, tagged: c.HashTag != "",
		// Twice has the same effect as once, so a lost connection needs no thought.
		beatLua:    valkey.NewLuaScriptRetryable(beatScript),
		leaveLua:   valkey.NewLuaScriptRetryable(leaveScript),
		assignLua:  valkey.NewLuaScriptRetryable(assignScript),
		renewLua:   valkey.NewLuaScriptRetryable(renewScript),
		releaseLua: valkey.NewLuaScriptRetryable(releaseScript),
	}
}

// hashOf is the name of a routing key in Valkey.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// record is a heartbeat as it stands in Valkey.
type record struct {
	cluster.Member
	ReportedAt int64 `json:"reported_at,omitempty"` // Unix ms of the member's clock
}

// parse reads a heartbeat, which may say anything.
func parse(text string) (cluster.Member, bool) {
	var r record
	if json.Unmarshal([]byte(text), &r) != nil {
		return cluster.Member{}, false
	}
	address, err := cluster.ParseAddress(r.Address)
	if err != nil {
		return cluster.Member{}, false
	}
	r.Address = address
	return r.Member, r.Check() == nil
}

// heard is what a beat brings back.
type heard struct {
	// taken is the address of another node that has this one's id; empty if there is none.
	taken string
	// known: Valkey had a heartbeat of this node.
	known   bool
	members []sighting
}

// sighting is a member with how long its heartbeat still lives.
type sighting struct {
	cluster.Member
	left time.Duration
}

// beat writes the heartbeat of a node and reads all.
func (s *store) beat(ctx context.Context, self cluster.Member, ttl time.Duration) (heard, error) {
	text, err := json.Marshal(record{self, time.Now().UnixMilli()})
	if err != nil {
		return heard{}, err
	}
	parts, err := run(ctx, s, s.beatLua, "instances",
		[]string{self.ID, self.Address, string(text), milliseconds(ttl)}, valkey.ValkeyResult.ToArray)
	if err != nil {
		return heard{}, err
	}
	return readBeat(parts)
}

var errAnswer = errors.New("valkey: the answer has another form")

func readBeat(parts []valkey.ValkeyMessage) (h heard, err error) {
	if len(parts) != 3 {
		return h, errAnswer
	}
	taken, err1 := parts[0].ToString()
	known, err2 := parts[1].AsInt64()
	list, err3 := parts[2].ToArray()
	if err := errors.Join(err1, err2, err3); err != nil || len(list)%2 != 0 {
		return h, errors.Join(errAnswer, err)
	}
	h.known = known == 1
	if other, ok := parse(taken); ok {
		h.taken = other.Address
	}
	for i := 0; i < len(list); i += 2 {
		text, _ := list[i].ToString()
		left, _ := list[i+1].AsInt64()
		if m, ok := parse(text); ok {
			h.members = append(h.members, sighting{m, time.Duration(left) * time.Millisecond})
		}
	}
	return h, nil
}

// leave removes a node.
func (s *store) leave(ctx context.Context, self cluster.Member) error {
	_, err := run(ctx, s, s.leaveLua, "instances", []string{self.ID, self.Address}, valkey.ValkeyResult.AsInt64)
	return err
}

// assigned is what Valkey says of a tenant's owner.
type assigned struct {
	owner cluster.Member
	named bool // false: no candidate lives, or there are strangers
	// met: nodes live that the asker does not know. strangers are those of them that can be members.
	met       bool
	strangers []cluster.Member
}

// assign asks for the owner of a tenant. It is none if a node lives that is not among the known ones, if there are any.
func (s *store) assign(ctx context.Context, t tenure, candidates []cluster.Member, known []string) (a assigned, err error) {
	args := make([]string, 0, 3+2*len(candidates)+len(known))
	args = append(args, t.hash, milliseconds(t.ttl), strconv.Itoa(len(candidates)))
	for _, m := range candidates {
		args = append(args, m.ID, strconv.Itoa(m.Weight()))
	}
	texts, err := run(ctx, s, s.assignLua, "assignment:"+t.hash, append(args, known...), valkey.ValkeyResult.AsStrSlice)
	if err == nil && len(texts) == 0 {
		err = errAnswer
	}
	if err != nil {
		return assigned{}, err
	}
	a.owner, a.named = parse(texts[0])
	a.met = len(texts) > 1
	for _, text := range texts[1:] {
		if m, ok := parse(text); ok {
			a.strangers = append(a.strangers, m)
		}
	}
	return a, nil
}

// tenure is a tenant as Valkey names it, and for how long it is given to an owner.
type tenure struct {
	hash string
	ttl  time.Duration
}

// errForgotten tells that Valkey has lost the heartbeat of an owner, and so maybe its tenants.
var errForgotten = errors.New("valkey has lost its data")

// renew keeps tenants of an owner, and says of each whether it is the owner's. The error is errForgotten if Valkey does not
// know that owner.
func (s *store) renew(ctx context.Context, owner string, hashes []string, ttl time.Duration, takeBack bool) ([]int64, error) {
	flag := "0"
	if takeBack {
		flag = "1"
	}
	kept, err := run(ctx, s, s.renewLua, "instances", append([]string{owner, milliseconds(ttl), flag}, hashes...), valkey.ValkeyResult.AsIntSlice)
	switch {
	case err == nil && len(kept) == 0:
		err = errForgotten
	case err == nil && len(kept) != len(hashes):
		err = errAnswer
	}
	return kept, err
}

// release gives up that an owner has tenants.
func (s *store) release(ctx context.Context, owner string, hashes ...string) error {
	_, err := run(ctx, s, s.releaseLua, "instances", append([]string{owner}, hashes...), valkey.ValkeyResult.AsInt64)
	return err
}

// run runs a script on a key and reads its answer.
func run[T any](
	ctx context.Context, s *store, script *valkey.Lua, key string, args []string, read func(valkey.ValkeyResult) (T, error),
) (T, error) {
	return link.Do(ctx, s.link, func(ctx context.Context, c valkey.Client) (T, error) {
		if c.Mode() == valkey.ClientModeCluster && !s.tagged {
			var none T
			return none, errNoHashTag
		}
		return read(script.Exec(ctx, c, []string{s.prefix + key}, append([]string{s.prefix}, args...)))
	})
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
