package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

func TestKindsAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for i, k := range fault.Kinds() {
		if int(k) != i+1 {
			t.Errorf("kind %d stands at place %d", k, i)
		}
		if name := k.String(); seen[name] {
			t.Errorf("two kinds are called %q", name)
		} else {
			seen[name] = true
		}
	}
	if last := fault.Kinds()[len(fault.Kinds())-1]; last != fault.Internal {
		t.Errorf("the last kind is %v", last)
	}
}

func TestUnknownKindsAreInternal(t *testing.T) {
	for _, k := range []fault.Kind{0, fault.Internal + 1, 255} {
		if k.String() != "internal" {
			t.Errorf("kind %d is called %q", k, k)
		}
	}
}

func TestKindOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"nil":                {nil, 0},
		"a fault":            {fault.New(fault.NotFound, "gone"), fault.NotFound},
		"a fault inside":     {fmt.Errorf("context: %w", fault.New(fault.Invalid, "x")), fault.Invalid},
		"a fault among many": {errors.Join(io.EOF, fault.New(fault.Draining, "x")), fault.Draining},
		"no fault":           {io.EOF, fault.Internal},
		"a fault of no kind": {&fault.Error{Detail: "x"}, fault.Internal},
	} {
		if got := fault.KindOf(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestIs(t *testing.T) {
	err := fmt.Errorf("context: %w", fault.New(fault.TooLarge, "x"))
	if !fault.Is(err, fault.TooLarge) || fault.Is(err, fault.Invalid) || fault.Is(nil, 0) || fault.Is(nil, fault.Internal) {
		t.Error("Is does not follow KindOf")
	}
	if !fault.Is(io.EOF, fault.Internal) {
		t.Error("an error of no kind is not internal")
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"invalid: user_id is required":     fault.New(fault.Invalid, "%s is required", "user_id"),
		"unavailable: EOF":                 fault.Wrap(fault.Unavailable, io.EOF, ""),
		"unavailable: disk is full: EOF":   fault.Wrap(fault.Unavailable, io.EOF, "disk is full"),
		"internal: a fault without kind":   &fault.Error{Detail: "a fault without kind"},
		"overloaded: ":                     &fault.Error{Kind: fault.Overloaded},
		"mismatch: 100 % of the key \"k\"": fault.New(fault.Mismatch, "100 %% of the key %q", "k"),
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestWrapKeepsTheCause(t *testing.T) {
	if !errors.Is(fault.Wrap(fault.Unavailable, io.EOF, "x"), io.EOF) {
		t.Error("the cause is lost")
	}
}
