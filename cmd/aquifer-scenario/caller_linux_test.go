package main

import (
	"net"
	"os"
	"testing"
)

func TestCallerIsFoundByItsProcess(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	calling := dial(t, ln.Addr().String())
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	inode, err := callerInode(accepted)
	if err != nil {
		t.Fatal(err)
	}
	if !holds(os.Getpid(), inode) {
		t.Error("not found")
	}
	if holds(os.Getppid(), inode) || holds(1<<30, inode) {
		t.Error("found in another process")
	}
	if other, err := callerInode(calling); err != nil || other == inode {
		t.Errorf("both ends have inode %d: %v", inode, err)
	}
}

func TestDiagInodeOfOtherAnswers(t *testing.T) {
	for _, answer := range [][]byte{nil, make([]byte, answerSize), make([]byte, 20)} {
		if _, err := diagInode(answer); err == nil {
			t.Errorf("an inode in %d bytes", len(answer))
		}
	}
}
