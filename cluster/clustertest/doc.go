// Package clustertest holds what tests of clusters share: Conform, the place where the behaviour of a
// cluster.View is defined by tests, and Fleet, a cluster in memory whose members tests add, drain,
// hide and kill.
package clustertest
