package gossip_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/aquifer-fleet/aquifer/cluster/gossip"
)

// The kinds of messages of memberlist that are needed here.
const (
	aliveMessage    = 4
	pushPullMessage = 6
	compoundMessage = 7
	compressMessage = 9
)

var nowhere = netip.MustParseAddrPort("10.9.9.9:7946")

// alive is memberlist's message that a node is there.
type alive struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
}

func message(t testing.TB, kind byte, body any) []byte {
	b := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(b, &codec.MsgpackHandle{}).Encode(body); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sealed is a packet of somebody who has the key.
func sealed(t testing.TB, packet []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	return gcm.Seal(append([]byte{1}, nonce...), nonce, packet, nil)
}

var version = []uint8{1, 5, 2, 0, 0, 0}

// garbage is what is wrong in the packet itself, whoever sends it.
func garbage(t testing.TB) map[string][]byte {
	many := append([]byte{compoundMessage, 255}, make([]byte, 100)...)
	return map[string][]byte{
		"short version array":     message(t, aliveMessage, alive{1, "x", []byte{10, 9, 9, 9}, 7946, nil, []uint8{1, 5}}),
		"no version array":        message(t, aliveMessage, alive{1, "x", []byte{10, 9, 9, 9}, 7946, nil, nil}),
		"impossible version":      message(t, aliveMessage, alive{1, "x", []byte{10, 9, 9, 9}, 7946, nil, []uint8{9, 1, 2, 0, 0, 0}}),
		"no address":              message(t, aliveMessage, alive{1, "x", nil, 7946, nil, version}),
		"half an address":         message(t, aliveMessage, alive{1, "x", []byte{10, 9}, 7946, nil, version}),
		"compound of 255":         many,
		"compound without count":  {compoundMessage},
		"compound cut off":        {compoundMessage, 1, 0, 200, 1},
		"compressed nothing":      message(t, compressMessage, map[string]any{"Algo": 7, "Buf": []byte{1, 2, 3}}),
		"unknown kind":            {99, 1, 2, 3},
		"wrong checksum":          {12, 0, 0, 0, 0, 1, 2, 3},
		"label without a length":  {244},
		"label of length 0":       {244, 0},
		"label longer than it is": {244, 200, 'x'},
		"another label":           {244, 1, 'x', 1, 2},
		"not the codec's":         {aliveMessage, 0xc1, 0xff, 0xff},
	}
}

func TestCL05GarbageIsDroppedAndCounted(t *testing.T) {
	for name, packet := range garbage(t) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.cfg.Keys = nil
				drops(t, w, packet, "malformed")
			})
		})
		if packet[0] == 244 {
			continue // the label is in front of what is encrypted
		}
		t.Run(name+", by who has the key", func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { drops(t, w, sealed(t, packet), "malformed") })
		})
		t.Run(name+", by who has no key", func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { drops(t, w, packet, "undecryptable") })
		})
	}
}

func TestCL05UnencryptedAmongEncryptedIsDropped(t *testing.T) {
	good := message(t, aliveMessage, alive{1, "x", []byte{10, 9, 9, 9}, 7946, nil, version})
	bubble(t, func(t *testing.T, w *world) { drops(t, w, good, "undecryptable") })
}

// drops sends a packet to a node of a fleet, and looks that it was counted and nothing came of it.
func drops(t *testing.T, w *world, packet []byte, reason string) {
	t.Helper()
	nodes := w.fleet(2)
	before, epoch := nodes[0].dropped(t, reason), epochs(nodes)
	w.Inject(nowhere, netip.AddrPortFrom(nodes[0].at, gossip.DefaultPort), packet)
	within(t, time.Second, "it is counted: "+nodes[0].log.String(), func() bool { return nodes[0].dropped(t, reason) > before })
	time.Sleep(10 * time.Second)
	if epochs(nodes) != epoch {
		t.Error("the roster has changed")
	}
	w.together(0, nodes...)
}

func TestCL05GarbageInStreams(t *testing.T) {
	for name, sent := range map[string][]byte{
		"plain":             {pushPullMessage, 0x83},
		"encrypted":         append([]byte{10, 0, 0, 0, 40}, make([]byte, 40)...),
		"encrypted, short":  {10, 0, 0, 0, 3, 1, 2, 3},
		"encrypted for MBs": {10, 255, 255, 255, 255},
		"label":             {244, 0},
		"nothing":           {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.fleet(2)
				c, err := w.Host(nowhere.Addr()).Dial(netip.AddrPortFrom(nodes[0].at, gossip.DefaultPort), time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write(sent); err != nil {
					t.Fatal(err)
				}
				c.Close()
				time.Sleep(5 * time.Second)
				if len(sent) > 0 && nodes[0].dropped(t, "malformed")+nodes[0].dropped(t, "undecryptable") == 0 {
					t.Errorf("nobody has counted it: %s", nodes[0].log)
				}
				w.together(0, nodes...)
			})
		})
	}
}

// A node with metadata that cannot be read, perhaps of a later release, is left out and said to be so.
func TestUnreadableMembersAreLeftOut(t *testing.T) {
	for name, meta := range map[string][]byte{
		"empty": nil, "later format": {2, 0xa0}, "not CBOR": {1, 0xff, 0xff}, "no address": {1, 0xa0}, "trailing": {1, 0xa0, 0},
		"bad address": append([]byte{1, 0xa1, 1, 0x67}, "ftp://x"...), "all": bytes.Repeat([]byte{0xbf}, 512),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.fleet(2)
				epoch := epochs(nodes)
				packet := message(t, aliveMessage, alive{1, "odd", []byte{10, 9, 9, 9}, 7946, meta, version})
				w.Inject(nowhere, netip.AddrPortFrom(nodes[0].at, gossip.DefaultPort), sealed(t, packet))
				within(t, time.Second, "it is said", func() bool {
					return strings.Contains(nodes[0].log.String(), "cannot be read") && strings.Contains(nodes[1].log.String(), "member=odd")
				})
				if epochs(nodes) != epoch {
					t.Error("the roster has changed")
				}
				w.together(0, nodes...)
			})
		})
	}
}

// Who floods the port with garbage does not flood the log, nor keep the members apart.
func TestFloodOfGarbage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		r := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			b := make([]byte, r.IntN(200))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			w.Inject(nowhere, netip.AddrPortFrom(nodes[0].at, gossip.DefaultPort), b)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		w.together(0, nodes...)
		if n := nodes[0].dropped(t, "undecryptable"); n < 4900 {
			t.Errorf("%v are counted", n)
		}
		if n := strings.Count(nodes[0].log.String(), "\n"); n > 30 {
			t.Errorf("%d lines of log", n)
		}
	})
}

// hungry reports whether a packet may claim a string or list in it to be of more than a mebibyte: MessagePack has the
// length in four bytes after the type.
func hungry(packet []byte) bool {
	for i := range max(0, len(packet)-4) {
		switch packet[i] {
		case 0xc6, 0xc9, 0xdb, 0xdd, 0xdf:
			if binary.BigEndian.Uint32(packet[i+1:]) > 1<<20 {
				return true
			}
		}
	}
	return false
}

// Packets of an open cluster reach every decoder of memberlist. None may end the process, and the node must
// still know the members of its own cluster afterwards.
func FuzzPackets(f *testing.F) {
	for _, packet := range garbage(f) {
		f.Add(packet)
	}
	f.Add(message(f, aliveMessage, alive{1, "x", []byte{10, 9, 9, 9}, 7946, []byte{1, 0xa0}, version}))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if hungry(packet) {
			t.Skip("the library's decoder would ask for more memory than there may be")
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Keys, w.cfg.Join = nil, nil
			n := w.run(member("a", 1), nil)
			within(t, time.Second, "it has settled", func() bool { return n.Roster().Unsettled == nil })
			w.Inject(nowhere, netip.AddrPortFrom(n.at, gossip.DefaultPort), packet)
			time.Sleep(time.Second)
			for _, m := range n.Roster().Members {
				if err := m.Check(); err != nil {
					t.Errorf("%+v: %v", m, err)
				}
			}
		})
	})
}
