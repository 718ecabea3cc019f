// Package webhook delivers the results of jobs to their receivers.
//
// A result is owed from the moment the job's end is stored until its delivery is settled, and the
// store remembers that, not this package: whatever happens to a process, the next one goes on. So a
// receiver gets each result at least once. Each time it gets the same bytes under the same
// X-Aqueduct-Delivery-Id, by which it can tell a second copy.
//
// What an answer means:
//
//   - 2xx: delivered.
//   - no answer, 404, 408, 425, 429, 5xx: tried again, up to Policy.MaxAttempts in all, after the
//     back-off or what Retry-After asks for. After the last one the delivery has failed: it is the
//     dead letter, which an operator can owe again.
//   - X-Aqueduct-No-Retry: true beside a failure, and any other status: rejected, not tried again.
//     This covers 3xx: a redirect is not followed, because the receiver that the caller named has not
//     taken the result, and where it points to was never checked.
//   - an address that the egress guard refuses: failed at once.
//
// A store that fails. An outcome that cannot be recorded is recorded again and again, a little later
// each time, and meanwhile keeps the receiver's slot: so a node that cannot write down what it
// delivered delivers no more than its slots, and does not spin. If the process ends first, the
// delivery is still owed, and the next process makes it again under the same id.
//
// The package knows nothing of HTTP transports, of the pace of receivers or of what else waits.
package webhook
