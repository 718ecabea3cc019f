package node

import (
	"context"
	"errors"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// Owner is api.Cluster. It chooses as ToOwner does for a job in the user's own scope.
func (m *membership) Owner(ctx context.Context, userID string) (api.Owner, error) {
	o, err := m.owners.Of(ctx, userID, nil)
	var unsettled *cluster.UnsettledError
	switch {
	case errors.As(err, &unsettled), errors.Is(err, cluster.ErrNobody):
		return api.Owner{}, fault.New(fault.Unavailable, "%v", err)
	case err != nil:
		return api.Owner{}, err
	}
	return api.Owner{ID: o.ID, Address: o.Address, Local: o.Local}, nil
}
