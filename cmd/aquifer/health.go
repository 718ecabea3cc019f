package main

import (
	"context"
	"fmt"
	"time"
)

// healthPatience is how long a node may take to say how it is. One that needs longer is not well.
const healthPatience = 5 * time.Second

// healthCommand is for what watches over processes: containers, supervisors, scripts that wait.
type healthCommand struct {
	Ready  bool      `help:"Ask whether the node takes new jobs, not just whether it answers."`
	Target nodeFlags `embed:""`
}

func (c *healthCommand) Run(p *process) error {
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthPatience)
	defer cancel()
	status := "ready"
	if c.Ready {
		err = node.Ready(ctx)
	} else {
		h, asked := node.Health(ctx)
		status, err = h.Status, asked
	}
	if err != nil {
		// Container engines know no other code for a node that is not well.
		return &failure{code: exitFailed, err: c.Target.explain(err)}
	}
	_, err = fmt.Fprintln(p.stdout, plain(status))
	return err
}

func (*healthCommand) examples() string {
	return `Examples:
  aquifer health                                 is the process well?
  until aquifer health --ready; do sleep 1; done wait until a node takes jobs

It prints ok, draining or ready, and its exit code is 0. It is 1 if the node does not say so within 5 s,
whatever the reason is. A node that is stopping, whose disk is full, or that does not know its cluster
yet answers and is not ready: do not restart a node because of --ready.
`
}
