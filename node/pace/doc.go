// Package pace says when work may be sent to a target, and whose work is next.
//
// A Budget bounds one target's rate and concurrency, exactly. A Share divides the turns of a target
// among those who wait for it. ReadSignal and Backoff turn what a target answered, or its silence,
// into a wait.
//
// Everything here is a value: there is no clock, no goroutine, no lock and no randomness. The time
// and the random draw come in as arguments, and one owner at a time calls. It does not know what
// a lane or a job is.
package pace
