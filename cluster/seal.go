package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// SealLife is by how much the time of a seal and the clock of the node that checks it may differ. A
// request that was overheard can be sent again to the same node for that long; what peers ask of each
// other must do no harm the second time.
const SealLife = 30 * time.Second

// leastSecret is the length of the shortest secret, in bytes: guessing 128 bits is hopeless.
const leastSecret = 16

// Why a seal is not believed. The texts are for operators, and tell nothing of the secret.
var (
	ErrSealBroken   = errors.New("the peer's signature is wrong: the nodes have different secrets, or the request was changed on its way")
	ErrSealOld      = fmt.Errorf("the peer's request is more than %v away from this node's clock", SealLife)
	ErrSealNotForUs = errors.New("the peer's request is for another node")
	ErrSealBody     = errors.New("the peer's request has another body than the peer signed")
)

// Seal proves to a node that a request comes from another node of the same secret, for it, now, and as
// it was sent. The zero Seal has no secret: it proves nothing and believes everybody.
type Seal struct {
	self    string
	secrets [][]byte
}

// NewSeal returns the seal of the node of that id. The first secret signs and all are believed, so that
// a secret can be changed without a moment in which nodes refuse each other: add the new one behind
// the old everywhere, then in front, then drop the old. No secrets make a seal that believes everybody.
func NewSeal(self string, secrets ...string) (Seal, error) {
	s := Seal{self: self}
	for _, secret := range secrets {
		if len(secret) < leastSecret {
			return Seal{}, fmt.Errorf("a secret of the peers must have at least %d bytes, got %d", leastSecret, len(secret))
		}
		s.secrets = append(s.secrets, []byte(secret))
	}
	return s, nil
}

// Enforced reports whether there is a secret.
func (s Seal) Enforced() bool { return len(s.secrets) > 0 }

// Sign seals a request to the node of id to, which is empty if the sender does not know who will answer.
// The body is the whole body of the request. What is signed stands on a line each: the version, method,
// path with query, sender, receiver, time in Unix ms, hexadecimal SHA-256 of the body, and the headers
// that tell of the hop.
func (s Seal) Sign(r *http.Request, to string, body []byte) {
	h := r.Header
	h[fromHeader] = []string{s.self}
	if !s.Enforced() {
		return
	}
	sum := sha256.Sum256(body)
	h[toHeader] = []string{to}
	h[timeHeader] = []string{strconv.FormatInt(time.Now().UnixMilli(), 10)}
	h[bodyHeader] = []string{hex.EncodeToString(sum[:])}
	h[signatureHeader] = []string{version + hex.EncodeToString(mac(s.secrets[0], r))}
}

// version stands before a signature, so that there can be another one day.
const version = "v1="

func mac(secret []byte, r *http.Request) []byte {
	h := r.Header
	lines := strings.Join([]string{
		version, r.Method, r.URL.RequestURI(), h.Get(fromHeader), h.Get(toHeader), h.Get(timeHeader), h.Get(bodyHeader),
		h.Get(forwardedHeader), h.Get(triedHeader),
	}, "\n")
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(lines))
	return m.Sum(nil)
}

// checkHead says why a sealed request need not even be read. When it returns nil, the body and the header that the
// caller sent are still unproven.
func (s Seal) checkHead(r *http.Request) error {
	hexadecimal, known := strings.CutPrefix(r.Header.Get(signatureHeader), version)
	signature, err := hex.DecodeString(hexadecimal)
	if err != nil || !known || !s.signed(r, signature) {
		return ErrSealBroken
	}
	ms, err := strconv.ParseInt(r.Header.Get(timeHeader), 10, 64)
	if err != nil {
		return ErrSealBroken
	}
	if off := time.Since(time.UnixMilli(ms)); off > SealLife || off < -SealLife {
		return ErrSealOld
	}
	if to := r.Header.Get(toHeader); to != "" && to != s.self {
		return ErrSealNotForUs
	}
	return nil
}

func (s Seal) signed(r *http.Request, signature []byte) bool {
	for _, secret := range s.secrets {
		if hmac.Equal(signature, mac(secret, r)) {
			return true
		}
	}
	return false
}

// checkBody says whether a body is the one that was signed.
func checkBody(r *http.Request, body []byte) error {
	sum := sha256.Sum256(body)
	if r.Header.Get(bodyHeader) != hex.EncodeToString(sum[:]) {
		return ErrSealBody
	}
	return nil
}
