package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
)

// AssentPath is where a node asks another one for its Assent.
const AssentPath = "/internal/cluster/assent"

// Assent is what a member says to a node that has lost what all nodes share, such as a Valkey, and wants to go on with
// what it knew last.
type Assent string

const (
	// Assented: the member has lost it, too, and takes nothing over from anybody for a while.
	Assented Assent = "assented"
	// Objected: the member has not lost it, and may have taken over what was the other node's.
	Objected Assent = "objected"
	// Left: the member takes nothing over any more, as it leaves.
	Left Assent = "left"
	// Refused: nobody listens at the member's address, so its process takes nothing over. No member says that, and it
	// tells nothing of the next moment: there may be another process.
	Refused Assent = "refused"
)

// AskAssent asks a member, and returns what it says, or Refused. The error tells that nothing is known of it.
func (f *Forwarder) AskAssent(ctx context.Context, m Member) (Assent, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Address+AssentPath, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := f.send(r, m, Call{}, Hop{From: f.self()})
	if errors.Is(err, syscall.ECONNREFUSED) {
		return Refused, nil // its machine is there
	}
	if err != nil {
		return "", err
	}
	defer resp.end()
	text, err := io.ReadAll(io.LimitReader(resp.Body, leftover))
	if err != nil {
		return "", err
	}
	switch a := Assent(text); {
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("status %d", resp.StatusCode)
	case a != Assented && a != Objected && a != Left:
		return "", fmt.Errorf("the answer %.32q is none", text)
	default:
		return a, nil
	}
}

// NewAssents returns the handler of AssentPath, behind a gate, where give gives this node's.
func NewAssents(give func() Assent) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, isPeer := HopOf(r)
		switch {
		case !isPeer:
			answer(w, http.StatusForbidden, refusal{Error: "only nodes of the cluster may ask for that"})
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			answer(w, http.StatusMethodNotAllowed, refusal{Error: "an assent is asked for with POST"})
		default:
			_, _ = io.WriteString(w, string(give())) // who is gone by now has no word
		}
	})
}
