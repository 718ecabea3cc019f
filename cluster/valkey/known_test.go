package valkey

import (
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func TestLearn(t *testing.T) {
	start := time.Now()
	const ttl = 10 * time.Second
	sees := func(ids ...string) (list []sighting) {
		for _, id := range ids {
			list = append(list, sighting{cluster.Member{ID: id}, ttl})
		}
		return list
	}
	old := []sighting{{cluster.Member{ID: "b"}, ttl / 2}}
	type beat struct {
		at     time.Duration
		sees   []sighting
		forgot time.Duration
	}
	for name, tt := range map[string]struct {
		beats []beat
		want  string
	}{
		"nobody":                        {[]beat{{0, nil, 0}}, ""},
		"all":                           {[]beat{{0, sees("a", "b"), 0}}, "ab"},
		"one left":                      {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), 0}}, "a"},
		"valkey lost all":               {[]beat{{0, sees("a", "b", "c"), 0}, {1 * time.Second, sees("a"), ttl}}, "abc"},
		"and it goes on":                {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), ttl}, {9 * time.Second, sees("a"), 0}}, "ab"},
		"until the heartbeat has ended": {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), ttl}, {11 * time.Second, sees("a"), 0}}, "a"},
		"who is back may leave":         {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), ttl}, {2 * time.Second, sees("a", "b"), 0}, {3 * time.Second, sees("a"), 0}}, "a"},
		"who left before is not back":   {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), 0}, {2 * time.Second, sees("a"), ttl}}, "a"},
		"lost twice":                    {[]beat{{0, sees("a", "b"), 0}, {1 * time.Second, sees("a"), ttl}, {2 * time.Second, sees("b"), ttl}}, "ab"},
		"lost when it was young":        {[]beat{{0, old, 0}, {4 * time.Second, sees("a"), ttl}, {6 * time.Second, sees("a"), 0}}, "ab"},
		"lost again and again": {[]beat{
			{0, sees("a", "b"), 0}, {5 * time.Second, sees("a"), ttl}, {10 * time.Second, sees("a"), ttl}, {15 * time.Second, sees("a"), ttl},
			{20 * time.Second, sees("a"), 0},
		}, "ab"},
		"lost while nobody was heard": {[]beat{{0, sees("a", "b"), 0}, {11 * time.Second, sees("a"), ttl}}, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			var k known
			for _, b := range tt.beats {
				k = k.learn(b.sees, b.forgot, start.Add(b.at), start.Add(b.at))
			}
			var ids []byte
			for _, m := range k.members() {
				ids = append(ids, m.ID...)
			}
			if slices.Sort(ids); string(ids) != tt.want {
				t.Errorf("got %s, want %s", ids, tt.want)
			}
		})
	}
}

// Whose heartbeat is taken away before its end has left. Whose may have ended by itself has not, nor has one that Valkey has
// lost.
func TestWhoHasLeft(t *testing.T) {
	const ttl = 10 * time.Second
	start := time.Now()
	both := []sighting{{cluster.Member{ID: "a"}, ttl}, {cluster.Member{ID: "b"}, ttl}}
	for name, tt := range map[string]struct {
		sent, answered time.Duration
		forgot         time.Duration
		left           bool
	}{
		"long before its end":         {time.Second, time.Second, 0, true},
		"just before its end":         {ttl - 2, ttl - 1, 0, true},
		"it may have ended meanwhile": {ttl - 1, ttl, 0, false},
		"after its end":               {ttl, ttl + 1, 0, false},
		"valkey has lost all":         {time.Second, time.Second, ttl, false},
	} {
		k := known{}.learn(both, 0, start, start).learn(both[:1], tt.forgot, start.Add(tt.sent), start.Add(tt.answered))
		if got := slices.Contains(k.left(), "b"); got != tt.left || len(k.left()) > 1 {
			t.Errorf("%s: %v have left", name, k.left())
		}
		if len(k.members()) != 1 && tt.forgot == 0 {
			t.Errorf("%s: the members are %v", name, k.members())
		}
		k = k.learn(both, 0, start.Add(ttl+2), start.Add(ttl+2))
		if len(k.left()) > 0 || len(k.members()) != 2 {
			t.Errorf("%s, and it is back: %v have left", name, k.left())
		}
	}
	k := known{}.learn(both, 0, start, start).learn(both[:1], 0, start.Add(1), start.Add(1)).learn(both[:1], ttl, start.Add(2), start.Add(2))
	if len(k.left()) != 1 || len(k.members()) != 1 {
		t.Errorf("who has left before valkey lost all is there as %v", k.members())
	}
	if k = k.learn(both[:1], 0, start.Add(ttl), start.Add(ttl)); len(k.left()) > 0 {
		t.Errorf("%v are remembered for ever", k.left())
	}
}

func TestNextEnd(t *testing.T) {
	now := time.Now()
	k := known{"self": {until: now}, "b": {until: now.Add(2 * time.Second)}, "c": {until: now.Add(time.Second)}}
	if got := k.nextEnd("self", now.Add(time.Minute)).Sub(now); got != time.Second {
		t.Errorf("got %v", got)
	}
	if got := k.nextEnd("self", now.Add(time.Millisecond)).Sub(now); got != time.Millisecond {
		t.Errorf("got %v", got)
	}
}

// FuzzParse: a heartbeat may say anything, and what passes can be a member.
func FuzzParse(f *testing.F) {
	f.Add(`{"id":"a","address":"http://a/","state":"active","active_users":1,"user_capacity":2,"reported_at":3}`)
	f.Add(`{"id":"a","address":"http://a","user_capacity":-1}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := parse(text); ok && m.Check() != nil {
			t.Error(m.Check())
		}
	})
}
