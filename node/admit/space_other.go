//go:build !unix

package admit

import (
	"errors"
	"fmt"
)

// Space cannot measure a volume on this system.
func Space(dir string) (free, volume int64, err error) {
	return 0, 0, fmt.Errorf("measure the volume of %s: %w", dir, errors.ErrUnsupported)
}
