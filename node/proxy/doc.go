// Package proxy tries a target at once, for a caller who waits on an open connection, and has the call join the target's
// queue if that does not help.
//
// A call is a job like any other: it is stored before its target is called, and its end is recorded before anybody is told.
// So neither the death of the process nor a caller that hangs up loses it or makes it run twice. Whether a target may be
// called now is the queue's to say, and what its answer means the worker's; this package brings the answer to the one who waits.
//
// The delivery of a result that is relayed is owed from when the result is recorded. It is held back until the
// caller has the whole answer, which settles it, or has left.
package proxy
