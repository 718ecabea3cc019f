// Package storetest defines how a store behaves: Run is the conformance suite that every store.Store
// must pass, and Disk is the smallest store that does, in memory, with faults on demand for the tests of
// those who use a store.
package storetest

import (
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// Opener prepares one empty store and returns how to open it. Opened again after Close, it has what was
// stored before. It is called inside a synctest bubble, and so is what it returns.
type Opener func(t *testing.T) (open func() (store.Store, error))

// Run tests a store. Each test runs in a bubble with virtual time, so a goroutine that outlives Close
// fails it.
func Run(t *testing.T, opener Opener) {
	suites := []map[string]func(*harness){
		jobTests(), listTests(), transitionTests(), deliveryTests(), laneTests(), dueTests(), expiryTests(), overrideTests(), ledgerTests(),
		handOffTests(), lifeTests(),
	}
	for _, suite := range suites {
		for name, test := range suite {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHarness(t, t, opener)
					defer h.close()
					test(h)
					h.checkPlaces()
				})
			})
		}
	}
	t.Run("Model", func(t *testing.T) { testModel(t, opener) })
}
