package registry_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/registry"
)

// notary is a sealer that writes down what it is asked. Only the registration under test calls it.
type notary struct {
	calls     []string
	introduce func(ctx context.Context)
	encrypt   func(body []byte) []byte
	err       error
}

func (n *notary) Introduce(ctx context.Context, to *url.URL) {
	n.calls = append(n.calls, "introduce "+to.Host)
	if n.introduce != nil {
		n.introduce(ctx)
	}
}

func (n *notary) Seal(to *url.URL, body []byte) (http.Header, []byte, error) {
	n.calls = append(n.calls, "seal "+to.Host)
	if n.encrypt != nil {
		body = n.encrypt(body)
	}
	return http.Header{"X-L8-Signature": {"signed"}, "Content-Type": {"application/l8-encrypted"}}, body, n.err
}

func sealedBy(n *notary) func(*registry.Config) {
	return func(c *registry.Config) { c.Sealer = n }
}

// What the sealer returns goes onto the wire. It is introduced before each ping but the last word.
func TestSealedPings(t *testing.T) {
	n := &notary{encrypt: func(body []byte) []byte {
		slices.Reverse(body)
		return body
	}}
	play(t, func(s *stage) {
		s.reg.Drain()
		synctest.Wait()
		s.stop()
		want := []string{
			"introduce " + controlPlane, "seal " + controlPlane, "introduce " + controlPlane, "seal " + controlPlane, "seal " + controlPlane,
		}
		if !slices.Equal(n.calls, want) {
			s.Errorf("asked to %q", n.calls)
		}
		const sealed = `}"Z00:00:00T10-10-0002":"ta_detroper","evitca":"etats","0007":"trop"{`
		p := s.canalis.Pings()[0]
		if p.Body != sealed || p.Header.Get("X-L8-Signature") != "signed" || p.Header.Get("Content-Type") != "application/l8-encrypted" {
			s.Errorf("sent %s with %v", p.Body, p.Header)
		}
	}, sealedBy(n))
}

// A ping that cannot be sealed is not sent, and counts as failed.
func TestSealFails(t *testing.T) {
	n := &notary{err: errors.New("no entropy")}
	play(t, func(s *stage) {
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s.stop()
		if len(s.canalis.Pings()) != 0 || s.log.count(`error="seal: no entropy"`) != 3 {
			s.Errorf("%d pings: %s", len(s.canalis.Pings()), &s.log.text)
		}
		s.counted(registry.Active, "failed", 3)
		s.counted(registry.Offline, "failed", 1)
	}, sealedBy(n), jitter(0))
}

// An introduction that hangs delays a ping, but does not keep it from being sent, and a drain or the end
// cuts it.
func TestIntroductionHangs(t *testing.T) {
	n := &notary{introduce: func(ctx context.Context) { <-ctx.Done() }}
	play(t, func(s *stage) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if gaps := s.gaps(0); slices.Max(gaps) != 15*time.Second || slices.Min(gaps) != 15*time.Second || s.canalis.Lapses() != 0 {
			s.Errorf("pinged after %v", gaps)
		}
		if took := s.stop(); took != 0 {
			s.Errorf("stopping took %v", took)
		}
		s.states(registry.Active, registry.Offline)
	}, sealedBy(n), jitter(0))
}

// A state that is over before the introduction is, is not told.
func TestDrainDuringTheIntroduction(t *testing.T) {
	n := &notary{introduce: func(ctx context.Context) { <-ctx.Done() }}
	play(t, func(s *stage) {
		time.Sleep(time.Second)
		s.reg.Drain()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		s.states(registry.Draining)
		s.counted(registry.Active, "failed", 0)
	}, sealedBy(n))
}
