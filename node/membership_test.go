package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// A node whose gossip cannot run ends and says why, instead of waiting for its cluster for ever.
func TestProviderThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := cluster.NewStatic(cluster.Member{ID: "a", Address: "http://a:1", State: cluster.Active}, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := &membership{view: v, owners: cluster.NewOwners(cluster.OwnersConfig{View: v})}
		m.forwarder = cluster.NewForwarder(cluster.ForwarderConfig{Owners: m.owners})
		m.sharers = cluster.NewSharers(cluster.SharersConfig{Owners: m.owners})
		m.provider = func(context.Context) error { return errors.New("gossip at :7946: address in use") }
		ended := make(chan error, 1)
		go func() { ended <- m.run(t.Context(), func(int) {}) }()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Fatal("an hour later the node still runs without its provider, and nobody was told")
		}
	})
}

// A port to gossip at that somebody else has is found before the node touches its disk, and named by its setting.
func TestGossipPortInUse(t *testing.T) {
	for name, listen := range map[string]func(*testing.T) string{
		"TCP": func(t *testing.T) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l.Addr().String()
		},
		"UDP": func(t *testing.T) string {
			l, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l.LocalAddr().String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, disk := listen(t), vfs.NewMem()
			n, err := New(mustConfig(t, "AQUIFER_LISTEN=127.0.0.1:0", "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=gossip",
				"AQUIFER_CLUSTER_SELF_ADDR=http://127.0.0.1:1", "AQUIFER_CLUSTER_GOSSIP_BIND="+at), Deps{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			err = n.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "AQUIFER_CLUSTER_GOSSIP_BIND is "+at) {
				t.Errorf("ended with %v", err)
			}
			if files, err := disk.List("."); len(files) != 0 {
				t.Errorf("on the disk: %q, %v", files, err)
			}
		})
	}
}

// A static cluster without others is likely to be a list that was forgotten.
func TestClusterOfOneIsWarnedOf(t *testing.T) {
	for members, warns := range map[string]bool{"": true, "a=http://a": true, "b=http://b": false, "a=http://a,b=http://b": false} {
		var log bytes.Buffer
		n, err := New(mustConfig(t, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ID=a", "AQUIFER_CLUSTER_SELF_ADDR=http://a",
			"AQUIFER_CLUSTER_MEMBERS="+members), Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.see(new(membership), nil); err != nil || strings.Contains(log.String(), "AQUIFER_CLUSTER_MEMBERS names no other") != warns {
			t.Errorf("%q: logged %s, %v", members, &log, err)
		}
	}
}
