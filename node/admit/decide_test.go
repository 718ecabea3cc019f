package admit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

const (
	mb = admit.MB
	gb = 1024 * mb
)

func TestDecide(t *testing.T) {
	all := admit.Limits{Memory: 700 * mb, DB: 100, SyncLag: time.Second}
	auto := admit.Limits{DB: admit.Auto}
	for name, c := range map[string]struct {
		limits   admit.Limits
		readings admit.Readings
		want     *fault.Limit // nil: admitted
	}{
		"all is well":       {all, admit.Readings{Memory: 700 * mb, DB: 100, SyncLag: time.Second}, nil},
		"everything is off": {admit.Limits{}, admit.Readings{Memory: 1 << 60, DB: 1 << 60, SyncLag: time.Hour, Volume: 1}, nil},
		"memory":            {all, admit.Readings{Memory: 700*mb + 1}, &fault.Limit{Reason: "memory", Limit: 700, Current: 701}},
		"memory with bodies that are being read": {
			all, admit.Readings{Memory: 690 * mb, Reserved: 11 * mb}, &fault.Limit{Reason: "memory", Limit: 700, Current: 701},
		},
		"disk":                         {all, admit.Readings{DB: 101}, &fault.Limit{Reason: "db_size", Limit: 100, Current: 101}},
		"disk with what is on its way": {all, admit.Readings{DB: 90, Admitted: 11}, &fault.Limit{Reason: "db_size", Limit: 100, Current: 101}},
		"lag":                          {all, admit.Readings{SyncLag: time.Second + 1}, &fault.Limit{Reason: "sync_lag", Limit: 1000, Current: 1001}},
		"memory comes first": {
			all, admit.Readings{Memory: gb, DB: 101, SyncLag: time.Minute}, &fault.Limit{Reason: "memory", Limit: 700, Current: 1024},
		},
		"disk comes before lag": {all, admit.Readings{DB: 101, SyncLag: time.Minute}, &fault.Limit{Reason: "db_size", Limit: 100, Current: 101}},

		"automatic, four fifths are used": {auto, admit.Readings{DB: 80 * gb, Free: 20 * gb, Volume: 200 * gb}, nil},
		"automatic, more is used": {
			auto, admit.Readings{DB: 80*gb + 1, Free: 20*gb - 1, Volume: 200 * gb}, &fault.Limit{Reason: "db_size", Limit: 80 * gb, Current: 80*gb + 1},
		},
		"automatic, unmeasured":      {auto, admit.Readings{DB: 838860800}, nil},
		"automatic, unmeasured, big": {auto, admit.Readings{DB: 838860801}, &fault.Limit{Reason: "db_size", Limit: 838860800, Current: 838860801}},
		"something else fills the volume": {
			auto, admit.Readings{DB: 10 * mb, Free: 255 * mb, Volume: 100 * gb}, &fault.Limit{Reason: "db_size", Limit: 9 * mb, Current: 10 * mb},
		},
		"the reserve is left alone by any limit": {
			admit.Limits{DB: 500 * gb}, admit.Readings{DB: 90 * gb, Free: 200 * mb, Volume: 100 * gb},
			&fault.Limit{Reason: "db_size", Limit: 90*gb - 56*mb, Current: 90 * gb},
		},
		"nothing free at all": {auto, admit.Readings{DB: 3, Volume: 100 * gb}, &fault.Limit{Reason: "db_size", Limit: 1, Current: 3}},
		"a small volume":      {auto, admit.Readings{DB: 20 * mb, Free: 40 * mb, Volume: 64 * mb}, nil},
		"off, on a full disk": {admit.Limits{}, admit.Readings{DB: 3, Volume: 100 * gb}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := admit.Decide(c.limits, c.readings)
			switch {
			case (got == nil) != (c.want == nil):
				t.Fatalf("got %v, want %v", got, c.want)
			case got != nil && (got.Kind != fault.Overloaded || *got.Limit != *c.want || got.Detail == ""):
				t.Errorf("got %v %+v, want %+v", got, *got.Limit, *c.want)
			}
		})
	}
}

func readings() *rapid.Generator[admit.Readings] {
	return rapid.Custom(func(t *rapid.T) admit.Readings {
		size := rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, 1<<50))
		r := admit.Readings{
			Memory: size.Draw(t, "memory"), Reserved: size.Draw(t, "reserved"), DB: size.Draw(t, "db"),
			Admitted: size.Draw(t, "admitted"), SyncLag: time.Duration(size.Draw(t, "lag")),
		}
		if rapid.Bool().Draw(t, "measured") {
			r.Free = size.Draw(t, "free")
			r.Volume = r.Free + r.DB + size.Draw(t, "others") + 1
		}
		return r
	})
}

func limits() *rapid.Generator[admit.Limits] {
	return rapid.Custom(func(t *rapid.T) admit.Limits {
		return admit.Limits{
			Memory:  rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1<<50)).Draw(t, "memory limit"),
			DB:      rapid.OneOf(rapid.SampledFrom([]int64{0, admit.Auto}), rapid.Int64Range(1, 1<<50)).Draw(t, "db limit"),
			SyncLag: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "lag limit")),
		}
	})
}

// A refusal says truly which limit is passed, and pressure that grows never lets work in.
func TestDecideIsHonestAndMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, r := limits().Draw(t, "limits"), readings().Draw(t, "readings")
		first := admit.Decide(l, r)
		if first != nil && first.Limit.Current <= first.Limit.Limit {
			t.Fatalf("refused by %+v, which is not passed", *first.Limit)
		}
		more := r
		more.Memory += rapid.Int64Range(0, 1<<40).Draw(t, "more memory")
		more.SyncLag += time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "more lag"))
		written := rapid.Int64Range(0, r.Free).Draw(t, "written")
		more.DB, more.Free = r.DB+written, r.Free-written
		if first != nil && admit.Decide(l, more) == nil {
			t.Fatalf("%+v is refused, %+v is not", r, more)
		}
	})
}

// A measured volume is never full while new work is admitted, unless the check is off.
func TestDecideLeavesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, r := limits().Draw(t, "limits"), readings().Draw(t, "readings")
		if l.DB == 0 || r.Volume == 0 || r.DB+r.Admitted < 2 || admit.Decide(l, r) != nil {
			return
		}
		if left := r.Free - r.Admitted; left < min(r.Volume/4, 16*mb) {
			t.Fatalf("admitted with %d left of %d", left, r.Volume)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	l := admit.Limits{Memory: 700 * mb, DB: admit.Auto, SyncLag: time.Second}
	r := admit.Readings{Memory: mb, DB: mb, Free: gb, Volume: 2 * gb}
	for b.Loop() {
		if admit.Decide(l, r) != nil {
			b.Fatal("refused")
		}
	}
}
