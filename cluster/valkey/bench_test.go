package valkey_test

import (
	"strconv"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// BenchmarkPlace: the owner of an active tenant, from memory, and that of a new one, from Valkey.
func BenchmarkPlace(b *testing.B) {
	s := valkeytest.Start(b)
	v, err := valkey.New(valkey.Config{Self: member("a", 1<<30), Link: linked(b, s.URL(), long)})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx := b.Context()
	go func() { ended <- v.Run(ctx) }()
	for changed := v.Changes(); v.Roster().Unsettled != nil; changed = v.Changes() {
		<-changed
	}
	owners := cluster.NewOwners(cluster.OwnersConfig{View: v, Placement: v})
	for name, key := range map[string]func(i int) string{
		"active": func(int) string { return "tenant" },
		"new":    func(i int) string { return "new-" + strconv.Itoa(i) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := owners.Of(ctx, key(i), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
