//go:build !crashpoints

package main

import "fmt"

// armCrashPoint refuses to pretend: only a build with the tag crashpoints can kill itself.
func armCrashPoint(spec string) error {
	if spec == "" {
		return nil
	}
	return fmt.Errorf("%s needs a build with the tag crashpoints, got %q", crashName, spec)
}
