package job_test

import (
	"encoding/base64"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		body           string
		cut            bool
		text, encoding string
	}{
		"empty":                         {"", false, "", ""},
		"text":                          {"grüße", false, "grüße", ""},
		"binary":                        {"\xff\xfe\x00\xc3\x28", false, "//4Awyg=", "base64"},
		"half a character in the whole": {"gr\xc3", false, "Z3LD", "base64"},
		"cut in a character of two":     {"gr\xc3", true, "gr", ""},
		"cut in a character of four":    {"a\xf0\x9f\x98", true, "a", ""},
		"cut between characters":        {"grü", true, "grü", ""},
		"binary that ends like text":    {"\xff\xfe\xc3", true, "//7D", "base64"},
		"stray continuation":            {"a\xa9", true, "Yak=", "base64"},
		"the replacement character":     {"\uFFFD", false, "\uFFFD", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, encoding := job.Text([]byte(c.body), c.cut)
			if text != c.text || encoding != c.encoding {
				t.Errorf("got (%q, %q), want (%q, %q)", text, encoding, c.text, c.encoding)
			}
		})
	}
}

// Whole bodies come back byte for byte; of cut text at most three bytes are missing.
func TestTextGivesBytesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "body")
		cut := rapid.Bool().Draw(t, "cut")
		text, encoding := job.Text(body, cut)
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not UTF-8", text)
		}
		got := []byte(text)
		if encoding == job.EncodingBase64 {
			var err error
			if got, err = base64.StdEncoding.DecodeString(text); err != nil {
				t.Fatal(err)
			}
		}
		if len(body)-len(got) > 3 || (!cut && len(got) != len(body)) || string(got) != string(body[:len(got)]) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}

func TestTextShowsAnyCutOfText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.StringN(1, 20, -1).Draw(t, "whole")
		at := rapid.IntRange(0, len(whole)).Draw(t, "at")
		if text, encoding := job.Text([]byte(whole[:at]), true); encoding != "" || whole[:len(text)] != text {
			t.Fatalf("cut at %d of %q became %q, %q", at, whole, text, encoding)
		}
	})
}

func TestShow(t *testing.T) {
	whole := []byte("grün")
	for name, c := range map[string]struct {
		result  *job.Result
		payload []byte
		want    job.Shown
	}{
		"no answer":             {nil, nil, job.Shown{}},
		"empty":                 {&job.Result{}, nil, job.Shown{}},
		"whole":                 {&job.Result{Body: whole}, nil, job.Shown{Body: "grün"}},
		"cut":                   {&job.Result{Body: whole[:3], Truncated: true}, nil, job.Shown{Body: "gr", BodyTruncated: true}},
		"cut to nothing":        {&job.Result{Truncated: true}, nil, job.Shown{BodyTruncated: true}},
		"cut, whole at hand":    {&job.Result{Body: whole[:3], Truncated: true}, whole, job.Shown{Body: "grün"}},
		"nobody has it whole":   {&job.Result{Body: whole[:1], Truncated: true, Partial: true}, whole[:3], job.Shown{Body: "gr", BodyTruncated: true}},
		"binary":                {&job.Result{Body: []byte{0xff}}, nil, job.Shown{Body: "/w==", BodyEncoding: "base64"}},
		"binary, cut":           {&job.Result{Body: []byte{0xff}, Truncated: true}, nil, job.Shown{Body: "/w==", BodyEncoding: "base64", BodyTruncated: true}},
		"payload that is empty": {&job.Result{Truncated: true}, []byte{}, job.Shown{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.result.Show(c.payload); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
