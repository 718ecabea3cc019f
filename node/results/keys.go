package results

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/valkey-io/valkey-go"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

var errNoRegion = errors.New("no Valkey is configured")

// SetAll sets what keys became, by their hashes on the wire, and returns an error unless it has set all. Unlike
// what Ended is told, the caller keeps what could not be set.
func (r *Region) SetAll(ctx context.Context, values map[string]string) error {
	if r == nil {
		return errNoRegion
	}
	for hashes := range slices.Chunk(slices.Collect(maps.Keys(values)), batchSize) {
		_, err := link.Do(ctx, r.recording, func(ctx context.Context, c valkey.Client) (struct{}, error) {
			commands := make([]valkey.Completed, len(hashes))
			for i, hash := range hashes {
				commands[i] = c.B().Set().Key(r.cfg.Prefix + hash).Value(values[hash]).Px(r.cfg.TTL).Build().ToRetryable()
			}
			return struct{}{}, firstError(c.DoMulti(ctx, commands...))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
