//go:build unix

package main

import "syscall"

// descriptors is how many files and connections the process may have open; 0 if the system does not say. The
// runtime has raised the soft limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
