package cluster

import "sync"

// Bounds of what is remembered: at most two generations of keys that are not too long, about 20 MB.
const (
	generation  = 1 << 16
	longestKept = 128 // bytes
)

// firsts remembers who is first for a key in one field. When a generation of keys is full it
// becomes the old one, and the old one goes; a key that is asked for stays.
//
// mu guards all. What is remembered are indexes of the field's members.
type firsts struct {
	mu       sync.Mutex
	number   uint64 // of the field
	now, old map[string]int32
}

// of returns the first active member for key; false if no member is active.
func (f *firsts) of(among *field, key string) (Member, bool) {
	i := f.at(among, key)
	if i < 0 {
		return Member{}, false
	}
	return among.members[i], true
}

func (f *firsts) at(among *field, key string) int {
	if len(key) > longestKept {
		return first(among.members, key)
	}
	if i, ok := f.recall(among.number, key); ok {
		return i
	}
	i := first(among.members, key)
	f.remember(among.number, key, i)
	return i
}

func (f *firsts) recall(number uint64, key string) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number != number {
		return 0, false
	}
	i, ok := f.now[key]
	if !ok {
		if i, ok = f.old[key]; ok {
			f.put(key, i)
		}
	}
	return int(i), ok
}

func (f *firsts) remember(number uint64, key string, i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < f.number { // somebody has seen the next field meanwhile
		return
	}
	if number > f.number {
		f.number, f.now, f.old = number, nil, nil
	}
	f.put(key, int32(i))
}

// put remembers one key; f.mu is held.
func (f *firsts) put(key string, i int32) {
	if len(f.now) >= generation {
		f.now, f.old = nil, f.now
	}
	if f.now == nil {
		f.now = make(map[string]int32)
	}
	f.now[key] = i
}
