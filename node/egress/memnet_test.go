package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// memHost is a host of an in-memory network. Each connection to it is a pipe.
//
// mu guards what dial and the test share.
type memHost struct {
	accepted chan net.Conn
	done     chan struct{}

	mu    sync.Mutex
	pipes []*memPipe
}

// memPipe is the client's end of a connection. Once it is silent, what is written is lost and
// nothing comes, as when a host has vanished.
type memPipe struct {
	net.Conn
	mu     sync.Mutex
	silent bool
}

func (p *memPipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func newMemHost() *memHost {
	return &memHost{accepted: make(chan net.Conn), done: make(chan struct{})}
}

func (h *memHost) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case h.accepted <- far:
	case <-h.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p := &memPipe{Conn: near}
	h.mu.Lock()
	h.pipes = append(h.pipes, p)
	h.mu.Unlock()
	return p, nil
}

// vanish makes every connection of the host silent; how many there were is returned.
func (h *memHost) vanish() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pipes {
		p.mu.Lock()
		p.silent = true
		p.mu.Unlock()
	}
	return len(h.pipes)
}

func (h *memHost) Accept() (net.Conn, error) {
	select {
	case c := <-h.accepted:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *memHost) Close() error   { return nil }
func (h *memHost) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// serve serves HTTP on the host, over TLS and HTTP/2 if cfg is given; the returned function ends it.
func (h *memHost) serve(handler http.HandlerFunc, cfg *tls.Config) (stop func()) {
	srv := &http.Server{Handler: handler, TLSConfig: cfg.Clone(), ErrorLog: log.New(io.Discard, "", 0)}
	var running sync.WaitGroup
	running.Go(func() {
		if cfg != nil {
			_ = srv.ServeTLS(h, "", "")
			return
		}
		_ = srv.Serve(h)
	})
	return func() {
		close(h.done)
		_ = srv.Close()
		running.Wait()
	}
}

// certificate returns the TLS configurations of a server of this name and of its client.
func certificate(t testing.TB, name string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}
	return server, &tls.Config{RootCAs: roots}
}
