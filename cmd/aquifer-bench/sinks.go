package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Files that the sinks' process inherits, in this order from 3 on.
const (
	targetFile = 3 + iota
	receiverFile
	eventsFile
)

// sinksCmd is the process of the target and of the webhook receiver. Both answer at once, and tell
// the harness what came.
type sinksCmd struct {
	Body int `help:"Size of a job's body in bytes." required:""`
}

// answer is what the sinks say to everything.
const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"

// Run serves until ctx ends.
func (c *sinksCmd) Run(ctx context.Context) error {
	clk, err := newClock()
	if err != nil {
		return err
	}
	target, err := inheritedListener(targetFile)
	if err != nil {
		return err
	}
	receiver, err := inheritedListener(receiverFile)
	if err != nil {
		return err
	}
	events := os.NewFile(eventsFile, "events")
	defer events.Close()
	out := &outlet{w: events}
	body := jobBody(c.Body)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return out.run(ctx) })
	group.Go(func() error {
		return serve(ctx, target, quietly(func(m *message) { out.add(callEvent(clk.now(), m, body), false) }))
	})
	group.Go(func() error {
		return serve(ctx, receiver, quietly(func(m *message) { out.add(webhookEvent(clk.now(), m), true) }))
	})
	return group.Wait()
}

func inheritedListener(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listener")
	defer f.Close() // the listener has a copy
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listener inherited as file %d (only aquifer-bench itself starts this command): %w", fd, err)
	}
	return ln, nil
}

func callEvent(at int64, m *message, want []byte) event {
	e := event{kind: called, at: at, attempt: m.attempt, seq: seqOf(m.path()), job: m.job}
	if e.job == 0 || !bytes.Equal(m.body, want) {
		e.flags |= altered
	}
	return e
}

func webhookEvent(at int64, m *message) event {
	e := event{kind: delivered, at: at, seq: seqOf(m.path()), job: idTail(field(m.body, "job_id"))}
	if e.job == 0 {
		e.flags |= altered
	}
	if string(field(m.body, "status")) != "completed" {
		e.flags |= jobFailed
	}
	return e
}

// seqOf reads the job's number from the last element of a path; a number no run has if there is none.
func seqOf(path []byte) uint32 {
	n, err := strconv.ParseUint(string(path[bytes.LastIndexByte(path, '/')+1:]), 10, 32)
	if err != nil {
		return 1<<32 - 1
	}
	return uint32(n)
}

// quietly returns a reply to everything that says nothing but that it is fine, once saw has seen it.
func quietly(saw func(*message)) func(*message) []byte {
	fine := []byte(answer)
	return func(m *message) []byte {
		saw(m)
		return fine
	}
}

// serve answers every request on ln with what reply returns, until ctx ends.
func serve(ctx context.Context, ln net.Listener, reply func(*message) []byte) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var conns sync.WaitGroup
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			conns.Wait()
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		conns.Go(func() { answerAll(ctx, conn, reply) })
	}
}

// answerAll serves one connection. That it breaks is the dispatcher's right: a call it does not
// repeat shows as lost.
func answerAll(ctx context.Context, conn net.Conn, reply func(*message) []byte) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	in := bufio.NewReader(conn)
	var m message
	for !m.last {
		if err := m.read(in); err != nil {
			return
		}
		if _, err := conn.Write(reply(&m)); err != nil {
			return
		}
	}
}
