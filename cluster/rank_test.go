package cluster_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func nodes(n int) []cluster.Member {
	list := make([]cluster.Member, n)
	for i := range list {
		list[i] = cluster.Member{ID: fmt.Sprintf("node-%d", i), State: cluster.Active}
	}
	return list
}

func tenant(i int) string { return fmt.Sprintf("tenant-%d", i) }

// wireOrder is the order as the protocol has it.
func wireOrder(members []cluster.Member, key string) []string {
	hash := func(id string) string {
		sum := sha256.Sum256([]byte(id + ":" + key))
		return hex.EncodeToString(sum[:])
	}
	var ids []string
	for _, m := range members {
		if m.State == cluster.Active {
			ids = append(ids, m.ID)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := strings.Compare(hash(b), hash(a)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return ids
}

func ids(members []cluster.Member) []string {
	var list []string
	for _, m := range members {
		list = append(list, m.ID)
	}
	return list
}

func drawMembers(t *rapid.T) []cluster.Member {
	member := rapid.Custom(func(t *rapid.T) cluster.Member {
		return cluster.Member{
			ID:       rapid.StringMatching(`[a-z:]{1,4}`).Draw(t, "id"),
			Capacity: rapid.SampledFrom([]int{0, 1, 100, 250, 100000}).Draw(t, "capacity"),
			State:    rapid.SampledFrom([]cluster.State{cluster.Active, cluster.Active, cluster.Draining, cluster.Offline, "", "other"}).Draw(t, "state"),
		}
	})
	return rapid.SliceOfNDistinct(member, 0, 12, func(m cluster.Member) string { return m.ID }).Draw(t, "members")
}

func TestRankIsThatOfTheWireAtEqualWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		for i := range members {
			members[i].Capacity = rapid.SampledFrom([]int{0, cluster.DefaultCapacity}).Draw(t, "equal")
		}
		key := rapid.String().Draw(t, "key")
		if got, want := ids(cluster.Rank(members, key)), wireOrder(members, key); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A fixed example, so that nothing can change both sides at once.
func TestRankOfAKnownKey(t *testing.T) {
	members := []cluster.Member{{ID: "a", State: cluster.Active}, {ID: "b", State: cluster.Active}, {ID: "c", State: cluster.Active}}
	want := map[string]string{"ada": "abc", "grace": "bac", cluster.SharedKey("k"): "bac"}
	for key, order := range want {
		if got := strings.Join(ids(cluster.Rank(members, key)), ""); got != order {
			t.Errorf("%s: got %s, want %s", key, got, order)
		}
	}
}

func TestRankDoesNotDependOnTheOrderOfMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, key := drawMembers(t), rapid.String().Draw(t, "key")
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		if a, b := ids(cluster.Rank(members, key)), ids(cluster.Rank(shuffled, key)); !slices.Equal(a, b) {
			t.Errorf("%v and %v", a, b)
		}
	})
}

// Whatever the weights, even where those that are left are equal.
func TestRankWithoutAMemberIsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, key := drawMembers(t), rapid.String().Draw(t, "key")
		if len(members) == 0 {
			return
		}
		gone := rapid.IntRange(0, len(members)-1).Draw(t, "gone")
		want := slices.DeleteFunc(ids(cluster.Rank(members, key)), func(id string) bool { return id == members[gone].ID })
		if got := ids(cluster.Rank(slices.Delete(slices.Clone(members), gone, gone+1), key)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestMoreWeightMovesKeysOnlyThere(t *testing.T) {
	before := nodes(5)
	for i := range before {
		before[i].Capacity = 100 + i
	}
	after := slices.Clone(before)
	after[2].Capacity *= 2
	moved := 0
	for i := range 10_000 {
		was, is := cluster.Rank(before, tenant(i))[0].ID, cluster.Rank(after, tenant(i))[0].ID
		if was != is {
			moved++
			if is != after[2].ID {
				t.Fatalf("%s went from %s to %s", tenant(i), was, is)
			}
		}
	}
	if moved == 0 {
		t.Error("nothing moved")
	}
}

func TestRemovingOneOfTenMovesOnlyItsOwn(t *testing.T) {
	for name, capacity := range map[string]func(int) int{
		"equal":    func(int) int { return 0 },
		"weighted": func(i int) int { return 50 + 25*i },
	} {
		t.Run(name, func(t *testing.T) {
			all := nodes(10)
			for i := range all {
				all[i].Capacity = capacity(i)
			}
			for gone := range all {
				rest := slices.Delete(slices.Clone(all), gone, gone+1)
				for i := range 2_000 {
					was, is := cluster.Rank(all, tenant(i))[0].ID, cluster.Rank(rest, tenant(i))[0].ID
					if was != all[gone].ID && was != is {
						t.Fatalf("%s moved from %s to %s when %s went", tenant(i), was, is, all[gone].ID)
					}
				}
			}
		})
	}
}

func TestTenantsAreBalanced(t *testing.T) {
	for name, capacity := range map[string]func(int) int{
		"equal":    func(int) int { return 100 },
		"weighted": func(i int) int { return 100 + 20*i },
	} {
		t.Run(name, func(t *testing.T) {
			members, total := nodes(10), 0
			for i := range members {
				members[i].Capacity = capacity(i)
				total += members[i].Capacity
			}
			const tenants = 100_000
			got := make(map[string]int)
			for i := range tenants {
				got[cluster.Rank(members, tenant(i))[0].ID]++
			}
			for _, m := range members {
				share := float64(tenants) * float64(m.Capacity) / float64(total)
				if off := math.Abs(float64(got[m.ID])/share - 1); off > 0.05 {
					t.Errorf("%s has %d tenants, %.1f %% off its share of %.0f", m.ID, got[m.ID], 100*off, share)
				}
			}
		})
	}
}

func TestKeysOfBothScopesDiffer(t *testing.T) {
	if cluster.SharedKey("k") == "shared:k" || !strings.Contains(cluster.SharedKey("k"), "\x00") {
		t.Error("a tenant's id could be a shared key")
	}
}
