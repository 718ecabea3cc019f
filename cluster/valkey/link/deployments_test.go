package link_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

func TestUserAndDatabase(t *testing.T) {
	s := valkeytest.Start(t)
	s.Do("ACL", "SETUSER", "aquifer", "on", ">p@ss", "~aqueduct:*", "+@all", "-@dangerous")
	host := strings.TrimPrefix(s.URL(), "valkey://")
	l := open(t, long, link.Target{URL: "redis://aquifer:p%40ss@" + host + "/3"})
	if err := set(t.Context(), l, "aqueduct:k", "v"); err != nil {
		t.Fatal(err)
	}
	if got := s.Get("aqueduct:k"); got != "" {
		t.Errorf("%q is in the first database", got)
	}
	s.Do("SWAPDB", "0", "3")
	if got := s.Get("aqueduct:k"); got != "v" {
		t.Errorf("got %q", got)
	}
	if err := set(t.Context(), l, "other", "v"); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("got %v", err)
	}
	wrong := open(t, long, link.Target{URL: "redis://aquifer:wrong@" + host})
	if err := set(t.Context(), wrong, "aqueduct:k", "v"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("got %v", err)
	}
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	port := strconv.Itoa(valkeytest.FreePort(t))
	plain := valkeytest.Start(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", key)
	u := "valkeys://127.0.0.1:" + port
	if err := set(t.Context(), open(t, long, link.Target{URL: u, CAFile: cert}), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got := plain.Get("k"); got != "v" {
		t.Errorf("got %q", got)
	}
	err := set(t.Context(), open(t, long, link.Target{URL: u}), "k", "w")
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger is trusted: %v", err)
	}
}

// TestSentinel: the primary is found by its name, and again after it moved.
func TestSentinel(t *testing.T) {
	one, two := valkeytest.Start(t), valkeytest.Start(t)
	one.Do("SET", "k", "v")
	two.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(one.Port()))
	valkeytest.Until(t, func() error {
		if got := two.Get("k"); got != "v" {
			return fmt.Errorf("the replica has %q", got)
		}
		return nil
	})
	// From here on the sentinel may have them change places, should this machine stand still for a moment.
	addr := sentinel(t, one)
	l := open(t, long, link.Target{URL: "valkey://" + addr + "?master_set=main"})
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "v") })
	one.Kill()
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "w") })
	if got := two.Get("k"); got != "w" {
		t.Errorf("the new primary has %q", got)
	}
}

// sentinel runs one that alone decides, and returns its address.
func sentinel(t *testing.T, primary *valkeytest.Server) string {
	t.Helper()
	port, dir := valkeytest.FreePort(t), t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n", port, dir, primary.Port())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(valkeytest.Binary(t), conf, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func TestCluster(t *testing.T) {
	s := valkeytest.StartCluster(t)
	l := open(t, long, link.Target{URL: s.URL()})
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Error(err)
	}
}

// TestPrimaryMoves: behind one name there is first one server and then, when that has become a replica,
// another. The connections to the first stay open.
func TestPrimaryMoves(t *testing.T) {
	one, two := valkeytest.Start(t), valkeytest.Start(t)
	front := newFront(t, one.Addr)
	l := open(t, long, link.Target{URL: "valkey://" + front.addr})
	if err := set(t.Context(), l, "k", "v"); err != nil {
		t.Fatal(err)
	}
	one.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(two.Port()))
	if err := set(t.Context(), l, "k", "w"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Fatalf("got %v", err)
	}
	front.to.Store(two.Addr)
	valkeytest.Until(t, func() error { return set(t.Context(), l, "k", "w") })
	if got := two.Get("k"); got != "w" {
		t.Errorf("got %q", got)
	}
}

// front passes connections on to where it is told.
type front struct {
	addr string
	to   atomic.Value // of string
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{addr: l.Addr().String()}
	f.to.Store(to)
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.pass(c)
		}
	}()
	return f
}

func (f *front) pass(c net.Conn) {
	defer c.Close()
	back, err := net.Dial("tcp", f.to.Load().(string))
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		_, _ = io.Copy(back, c)
		back.Close()
	}()
	_, _ = io.Copy(c, back)
}

// certificate returns the files of a certificate for 127.0.0.1 that signs itself, and of its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "valkey"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "CERTIFICATE", der), write(t, "EC PRIVATE KEY", secret)
}

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
