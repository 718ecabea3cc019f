package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plain makes text of strangers safe for a terminal: what is not printable is escaped.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s { // bytes that are not UTF-8 become U+FFFD
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}

// excerptRunes is how much of a body stands on the line of an event.
const excerptRunes = 120

// excerpt is the start of a body as it stands in JSON, quoted on one line.
func excerpt(body, encoding string) string {
	if body == "" {
		return "no body"
	}
	start, n := body, 0
	for i := range body {
		if n++; n > excerptRunes {
			start = body[:i]
			break
		}
	}
	text := fmt.Sprintf("%q", start)
	if len(start) < len(body) {
		text += "..."
	}
	if encoding != "" {
		text = encoding + " " + text
	}
	return text
}

// clock is a time of day, of Unix milliseconds.
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05.000") }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printJSON writes v as JSON on one line, or on many when it is for people too.
func printJSON(w io.Writer, v any, options ...json.Options) error {
	options = append(options, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	raw, err := json.Marshal(v, options...)
	if err != nil {
		return err
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}
