// Package valkeytest runs a real Valkey for a test, on a free port of the loopback interface and in a
// directory of its own, and plays one for the answers that a real one gives only when it is ill.
package valkeytest
