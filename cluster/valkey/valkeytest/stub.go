package valkeytest

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Stub is a server that answers as a test says, for answers that a real one does not give on demand.
type Stub struct {
	// Addr is host:port.
	Addr string

	listener net.Listener
	answer   func(command []string) string
	serving  sync.WaitGroup

	// mu guards open, so that Close finds every connection.
	mu   sync.Mutex
	open map[net.Conn]bool // nil: closed
}

// Answers of a Stub, in the form of the wire.
const (
	// OK is success.
	OK = "+OK\r\n"
	// Nothing is a value that is not there.
	Nothing = "$-1\r\n"
	// Hang is no answer at all.
	Hang = ""
	// Cut closes the connection in the middle of an answer.
	Cut = "$100\r\nonly the st"
)

// Error is the answer of a server that refuses; the text begins with a word such as READONLY.
func Error(text string) string { return "-" + text + "\r\n" }

// NewStub listens until the test ends, and has answer say what each command is answered; its words are as
// the client sent them. What a client says to introduce itself is answered by the stub, as a server
// would that is alone and speaks the older protocol. answer may be called concurrently.
func NewStub(t testing.TB, answer func(command []string) string) *Stub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stub{Addr: l.Addr().String(), listener: l, answer: answer, open: make(map[net.Conn]bool)}
	s.serving.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// URL is how a client gets to it.
func (s *Stub) URL() string { return "valkey://" + s.Addr }

func (s *Stub) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.open == nil {
			c.Close()
		} else {
			s.open[c] = true
			s.serving.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

func (s *Stub) close() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.serving.Wait()
}

func (s *Stub) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	for r := bufio.NewReader(c); ; {
		command, err := read(r)
		if err != nil {
			return
		}
		text := s.reply(command)
		if _, err := io.WriteString(c, text); err != nil || text == Cut {
			return
		}
	}
}

func (s *Stub) reply(command []string) string {
	switch strings.ToUpper(command[0]) {
	case "HELLO":
		return Error("ERR unknown command 'HELLO'")
	case "CLUSTER":
		return Error("ERR This instance has cluster support disabled")
	case "CLIENT":
		return OK
	case "PING":
		return "+PONG\r\n"
	default:
		return s.answer(command)
	}
}

// read reads one command: an array of strings.
func read(r *bufio.Reader) ([]string, error) {
	n, err := number(r)
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		length, err := number(r)
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		command[i] = string(word[:length])
	}
	return command, nil
}

// number reads a line that is a mark and a number.
func number(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line)[1:])
}
