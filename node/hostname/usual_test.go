package hostname

import "testing"

// FuzzUsual: what is usual at one look is what the long way leaves as it is.
func FuzzUsual(f *testing.F) {
	for _, s := range []string{"api.example", "api.example:8443", "127.0.0.1:80", "256.1.1.1", "1.2.3", "a..b", ".a", "a.0x1", "a:0", "a:99999", "a.b1", "0.0.0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if usual(s) && respell(s) != s {
			t.Fatalf("%q is taken for usual, but is %q", s, respell(s))
		}
	})
}
