//go:build unix

package admit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space returns what the file system of a directory can still take from this process, and its whole
// size, in bytes.
func Space(dir string) (free, volume int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("measure the volume of %s: %w", dir, err)
	}
	block := int64(st.Bsize)
	return int64(st.Bavail) * block, int64(st.Blocks) * block, nil
}
