package main

import (
	"net"
	"os"
	"testing"
)

// accepted is the other end of a connection of this process.
func accepted(t *testing.T) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	calling := dial(t, ln.Addr().String())
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	here, err := callerInode(c)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := callerInode(calling); err != nil || other == here {
		t.Errorf("both ends have inode %d: %v", here, err)
	}
	return c
}

func TestCallerIsFoundByItsProcess(t *testing.T) {
	looks, ids := 0, map[place]int{"n1": os.Getppid(), "n2": os.Getpid(), "n3": 1 << 30}
	c := &callers{processes: func() map[place]int { looks++; return ids }}
	first, second := accepted(t), accepted(t)
	for _, conn := range []net.Conn{first, second} {
		if p, known := c.of(conn); p != "n2" || !known {
			t.Errorf("%q, %v", p, known)
		}
	}
	if looks != 1 {
		t.Errorf("%d looks for two connections", looks)
	}
	if p, known := c.of(accepted(t)); p != "n2" || !known || looks != 2 {
		t.Errorf("%q, %v after %d looks", p, known, looks)
	}
	delete(ids, "n2")
	if p, known := c.of(accepted(t)); known {
		t.Errorf("found in %q", p)
	}
}

func TestDiagInodeOfOtherAnswers(t *testing.T) {
	for _, answer := range [][]byte{nil, make([]byte, answerSize), make([]byte, 20)} {
		if _, err := diagInode(answer); err == nil {
			t.Errorf("an inode in %d bytes", len(answer))
		}
	}
}
