package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What a node is about to forget stands in Valkey whole, also when that has lost it since.
func TestTheLedgerBringsResultsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.node("a", "AQUIFER_DRAIN_ENABLED=true", "AQUIFER_DRAIN_SINK=valkey")
	w.submit(a, "k", "/")
	w.stands(entryKey("k"), `"completed"`)
	before := w.Get(resultKey("k"))
	w.Do("FLUSHALL")
	a.stop() // which tells the rest
	if entry := w.Get(entryKey("k")); !strings.Contains(entry, `"result_key":"`+resultKey("k")+`"`) {
		t.Errorf("Valkey was told %s", entry)
	}
	if after := w.Get(resultKey("k")); after != before || !strings.Contains(after, `"body":"done"`) {
		t.Errorf("Valkey has the result %s, and had %s", after, before)
	}
}

// A batch is taken by an answer that is whole as far as it is read.
func TestPost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		whole  bool
	}{
		"empty": {func(http.ResponseWriter) {}, true},
		"short": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "thanks") }, true},
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "x")
		}, false},
		"without end": {func(w http.ResponseWriter) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 4096))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.answer(w) }))
			defer sink.Close()
			n, err := New(mustConfig(t), Deps{})
			if err != nil {
				t.Fatal(err)
			}
			client, err := n.newEgress()
			if err != nil {
				t.Fatal(err)
			}
			status, err := poster{client}.post(t.Context(), sink.URL, []byte("{}"))
			if (err == nil) != tt.whole || tt.whole && status != http.StatusOK {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
}
