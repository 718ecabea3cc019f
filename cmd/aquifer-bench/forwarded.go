package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"

	"github.com/aquifer-fleet/aquifer/cmd/port"
)

// forwarded is two nodes of a cluster. The one that is called owns a millionth of the tenants, so that all work is
// that of the other one.
func (o nodeOptions) forwarded(name string, setup nodeSetup) contender {
	return contender{name: name, start: func(ctx context.Context, dir string) (*dispatcher, error) {
		behind, err := o.member(ctx, filepath.Join(dir, "behind"), setup, "1000000", "")
		if err != nil {
			return nil, err
		}
		door, err := o.member(ctx, filepath.Join(dir, "door"), setup, "1", behind.gossip)
		if err != nil {
			return nil, errors.Join(err, behind.stop())
		}
		door.behind = behind.dispatcher
		return door.dispatcher, nil
	}}
}

// member is a node of a cluster.
type member struct {
	*dispatcher
	gossip string // where it gossips
}

// member starts one in dir, which it makes, and has it join another one.
func (o nodeOptions) member(ctx context.Context, dir string, setup nodeSetup, capacity, join string) (member, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return member{}, err
	}
	listen, gossip, err := port.Pair()
	if err != nil {
		return member{}, err
	}
	env := map[string]string{
		"AQUIFER_LISTEN":                   listen,
		"AQUIFER_CLUSTER_ENABLED":          "true",
		"AQUIFER_CLUSTER_PROVIDER":         "gossip",
		"AQUIFER_CLUSTER_SELF_ID":          filepath.Base(dir),
		"AQUIFER_CLUSTER_SELF_ADDR":        "http://" + listen,
		"AQUIFER_CLUSTER_GOSSIP_BIND":      gossip,
		"AQUIFER_CLUSTER_JOIN":             join,
		"AQUIFER_CLUSTER_MAX_ACTIVE_USERS": capacity,
		"AQUIFER_PEER_SECRET":              "secret of the benchmark",
	}
	maps.Copy(env, setup.env)
	setup.env = env
	n, err := o.newNode(dir, setup)
	if err != nil {
		return member{}, err
	}
	d, err := n.start(ctx)
	return member{dispatcher: d, gossip: gossip}, err
}
