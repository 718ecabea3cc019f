package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A Valkey that comes back empty is told again which keys are jobs that have not ended.
func TestRegionWhoseValkeyForgets(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*world){
		"emptied":   func(w *world) { w.Do("FLUSHALL") },
		"restarted": func(w *world) { w.Kill(); w.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.node("a"), w.node("b")
			if got := a.ask(http.MethodPost, "/targets/"+strings.TrimPrefix(w.target.URL, "http://")+"/pause", ""); got.code != 200 {
				t.Fatalf("answered %s", got.body)
			}
			const jobs = 300
			ids := make([]string, jobs)
			for i := range ids {
				ids[i] = w.submit(a, fmt.Sprint("key-", i), "/").got.JobID
			}
			w.stands(entryKey("key-299"), `"queued"`)
			for range 2 { // also the second time
				forget(w)
				for i := range ids {
					w.stands(entryKey(fmt.Sprint("key-", i)), ids[i])
				}
			}
			if got := w.submit(b, "key-7", "/"); got.code != 200 || got.got.JobID != ids[7] {
				t.Errorf("another node answers %d %s", got.code, got.body)
			}
		})
	}
}
