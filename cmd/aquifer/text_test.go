package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPlainLeavesNothingThatATerminalWouldObey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		got := plain(s)
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(got) {
			t.Fatalf("%q became %q", s, got)
		}
	})
	for in, want := range map[string]string{
		"upstream returned 503": "upstream returned 503",
		"Größe 5 µs":            "Größe 5 µs",
		"a\nb":                  `a\nb`,
		"\x1b[2Jgone":           `\x1b[2Jgone`,
		"\x9b":                  "\ufffd",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("ä", excerptRunes)
	tests := []struct{ body, encoding, want string }{
		{"", "", "no body"},
		{"ok", "", `"ok"`},
		{"a\n\x1b[2J", "", `"a\n\x1b[2J"`},
		{"/wA=", "base64", `base64 "/wA="`},
		{long, "", `"` + long + `"`},
		{long + "ä", "", `"` + long + `"...`},
	}
	for _, tt := range tests {
		if got := excerpt(tt.body, tt.encoding); got != tt.want {
			t.Errorf("excerpt(%q, %q) = %s, want %s", tt.body, tt.encoding, got, tt.want)
		}
	}
}
