//go:build crashpoints

package main

import "github.com/aquifer-fleet/aquifer/node/crashpoint"

// armCrashPoint makes the process kill itself where AQUIFER_CRASH_AT says.
func armCrashPoint(spec string) error {
	if spec == "" {
		return nil
	}
	return crashpoint.Arm(spec)
}
