package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// jobCommand talks to a node about jobs.
type jobCommand struct {
	Submit submitCommand `cmd:"" help:"Submit a job and print its id."`
	Get    getCommand    `cmd:"" help:"Show a job, its attempts and its result."`
	Watch  watchCommand  `cmd:"" help:"Print what happens to a job until it has ended."`
	List   listCommand   `cmd:"" help:"List jobs, the newest first."`
}

// nodeFlags say which node to talk to.
type nodeFlags struct {
	Server string `env:"AQUIFER_SERVER" default:"http://localhost:8080" placeholder:"URL" help:"Address of the node (default: ${default})."`
}

// client returns a client of the node.
func (f nodeFlags) client() (*client.Client, error) {
	address := f.Server
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	c, err := client.New(address, http.DefaultTransport)
	if err != nil {
		return nil, &failure{code: exitUsage, err: fmt.Errorf("--server or %s: %w", serverName, err)}
	}
	return c, nil
}

// explain turns what the client met into a failure that a user can act on.
func (f nodeFlags) explain(err error) error {
	var refusal *fault.Error
	var network *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return explainRefusal(refusal, err)
	case errors.As(err, &network) && network.Op == "dial":
		return fail(exitTryLater, "no node answers at %s: %w\nStart one with aquifer serve, or name another with --server or %s.",
			f.Server, network.Err, serverName)
	default:
		return fmt.Errorf("the node at %s: %w", f.Server, err)
	}
}

// explainRefusal says in one sentence what the node did not want.
func explainRefusal(refusal *fault.Error, err error) error {
	switch refusal.Kind {
	case fault.Invalid, fault.TooLarge, fault.Mismatch:
		return fail(exitUsage, "the node refuses the request: %s", refusal.Detail)
	case fault.NotFound:
		return fail(exitNotFound, "%s", refusal.Detail)
	case fault.Overloaded, fault.Draining, fault.Unavailable:
		return fail(exitTryLater, "the node refuses the request for now: %s%s", refusal.Detail, again(refusal.RetryAfter))
	default:
		return err
	}
}

func again(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return fmt.Sprintf("; try again in %d s", int64((wait+time.Second-1)/time.Second))
}
