package results

import "testing"

// A call that was given up may still read its batch when another one has written it.
func TestABatchOutlivesItsWriting(t *testing.T) {
	b := newBacklog(1<<20, 1<<20)
	for range 3 {
		b.add(record{key: "k", entry: "e", resultKey: "r", result: "x"})
	}
	batch := b.first()
	b.drop(len(batch))
	for i, rec := range batch {
		if rec.key != "k" || rec.entry != "e" || rec.resultKey != "r" || rec.result != "x" {
			t.Errorf("record %d is %+v", i, rec)
		}
	}
	if n := b.size(); n != 0 {
		t.Errorf("%d bytes wait of nothing", n)
	}
}
