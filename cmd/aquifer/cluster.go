package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// clusterCommand talks to a node about the cluster that it is in.
type clusterCommand struct {
	Members membersCommand `cmd:"" default:"withargs" help:"List the nodes of the cluster. This is also what aquifer cluster alone does."`
	Owner   ownerCommand   `cmd:"" help:"Tell which node answers for a tenant."`
}

// membersCommand lists the nodes that a node knows of.
type membersCommand struct {
	JSON   bool      `name:"json" help:"Print what the node knows of its cluster as JSON."`
	Target nodeFlags `embed:""`
}

func (c *membersCommand) Run(p *process) error {
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	h, err := node.Health(context.Background())
	switch {
	case err != nil:
		return c.Target.explain(err)
	case h.Cluster == nil:
		return fail(exitNotFound, "the node is in no cluster")
	case c.JSON:
		err = printJSON(p.stdout, h.Cluster, jsontext.Multiline(true))
	default:
		err = printMembers(p, h.Cluster)
	}
	if err == nil && h.Cluster.Unsettled != "" {
		err = fail(exitTryLater, "%s does not know its cluster yet: %s", h.Cluster.Self.ID, plain(h.Cluster.Unsettled))
	}
	return err
}

func printMembers(p *process, c *client.Cluster) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tSTATE\tTENANTS\tADDRESS\tNOTE") // tabwriter keeps it until Flush
	for _, m := range c.Nodes {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(m.ID), plain(m.State), loadOf(m, c), plain(m.Address), noteOf(m, c))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	when := ""
	if c.StaleSince != 0 {
		when = ", as it was at " + date(c.StaleSince)
	}
	_, err := fmt.Fprintf(p.stderr, "as %s sees it, by %s%s\n", plain(c.Self.ID), plain(c.Provider), when)
	return err
}

// loadOf is for how many tenants a node works. Nodes of a static list do not tell each other.
func loadOf(m client.Member, c *client.Cluster) string {
	switch {
	case m.ID == c.Self.ID:
		return fmt.Sprintf("%d of %d", c.ActiveUsers, c.UserCapacity)
	case m.UserCapacity == 0:
		return "?"
	default:
		return fmt.Sprintf("%d of %d", m.ActiveUsers, m.UserCapacity)
	}
}

func noteOf(m client.Member, c *client.Cluster) string {
	switch {
	case m.ID == c.Self.ID:
		return "this node"
	case slices.Contains(c.PrunedIDs, m.ID):
		return "passed over"
	default:
		return ""
	}
}

// ownerCommand tells who answers for a tenant.
type ownerCommand struct {
	Tenant string    `arg:"" name:"tenant" help:"The user_id of jobs."`
	JSON   bool      `name:"json" help:"Print the node's answer as JSON."`
	Target nodeFlags `embed:""`
}

func (c *ownerCommand) Run(p *process) error {
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	o, err := node.Owner(context.Background(), c.Tenant)
	switch {
	case err != nil:
		return c.Target.explain(err)
	case c.JSON:
		return printJSON(p.stdout, o)
	}
	_, err = io.WriteString(p.stdout, plain(o.ID)+"  "+plain(o.Address)+"\n")
	return err
}

func (*membersCommand) examples() string {
	return `Examples:
  aquifer cluster
  aquifer cluster --json | jq -r '.nodes[].id'

The table shows what one node knows: the state of each node, for how many tenants it works out of how
many it wants, and which nodes could not be reached and are passed over for a while. The exit code is 4
if the node is in no cluster, and 5 if it does not know its cluster yet.

Try next: aquifer cluster owner TENANT
`
}

func (*ownerCommand) examples() string {
	return `Examples:
  aquifer cluster owner alice
  aquifer job list --user alice --server $(aquifer cluster owner alice --json | jq -r .address)

It is the node that would get the tenant's next job, in the view of the node that is asked. Earlier jobs
may still be at another one. The exit code is 4 if the node is in no cluster, and 5 if it does not know
its cluster yet.
`
}
