package main

import (
	"testing"
	"time"
)

func TestLedgerKeepsTheFirstAcknowledgement(t *testing.T) {
	l, at := newLedger(), time.Unix(1000, 0)
	l.send("k", "ada", at, at)
	l.ack("k", "job-1", "n1", at.Add(time.Second))
	l.ack("k", "job-2", "n2", at.Add(2*time.Second))
	if e := l.entries["k"]; e.Job != "job-1" || e.Owner != "n1" || !e.Acked.Equal(at.Add(time.Second)) {
		t.Errorf("%+v", e)
	}
}

func TestLedgerCountsStrays(t *testing.T) {
	l := newLedger()
	l.called("nobody's", call{})
	l.delivered("nobody's", hook{})
	if l.strays != 2 {
		t.Errorf("%d strays", l.strays)
	}
}
