package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// explain says what an error of opening a directory means and what to do about it.
func explain(under vfs.FS, dir string, err error) error {
	switch text := err.Error(); {
	case isFull(err):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	// What the operating system says of a lock of another process, and Pebble of one of this process.
	case errors.Is(err, syscall.EAGAIN), strings.Contains(text, "lock held by current process"):
		return fmt.Errorf("it is open elsewhere: stop the process that has it, or use another directory: %w", err)
	case strings.Contains(text, "unknown format major version"):
		return fmt.Errorf("%w: a newer program has written it: run that one, or use another directory: %w", store.ErrVersion, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the user of this process must own it and be allowed to write there: %w", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("its file system is read-only: mount it writable, or use another directory: %w", err)
	case errors.Is(err, syscall.ENOTDIR), isFile(under, dir):
		return fmt.Errorf("it, or what it is in, is a file: move that away, or use another directory: %w", err)
	}
	return err
}

func isFile(under vfs.FS, name string) bool {
	info, err := under.Stat(name)
	return err == nil && !info.IsDir()
}
