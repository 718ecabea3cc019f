// Package handoff moves unfinished work from a node that stops to the nodes that own its tenants next.
//
// A Giver reads what its store has not finished, sorts it by owner, and hands it over in batches: it offers
// a batch to the owner in the store, so that nothing here runs it any more, sends it, and forgets what the
// peer says it has. A Taker is the other end: it adopts what it is sent, queues it and says so job by job.
//
// Whoever crashes in between, a job is never lost, and none runs at both nodes because of it. Where the
// giver does not learn what became of a batch, the batch is in doubt: it belongs to that peer alone until
// the peer answers, also over a restart. Only when the peer stays away for longer than the giver's patience, or
// cannot read the job, does the giver take such work back, and then it may run twice.
//
// A peer that takes no work, or does not answer, is passed over for the rest of the hand-over, until all others are
// passed over, too. It is not less of an owner because of that: nothing here tells who forwards requests.
//
// How a peer keeps up is seen only by the batches that it is sent. One that is slow holds the others' work back for
// a quarter of a second in each pass over the store, and a pass ends only when all that it has sent is answered.
//
// On the wire a batch is a POST to Path with a body in CBOR, a map with integer keys: 1 is the version, 2
// the jobs as store.Handed. The answer is 200 and a map of 1, the version, and 2, one byte for each job, a
// Verdict. An answer of 4xx or 503 says that nothing of the batch was taken; 400 and 413 say it of what the batch is, so
// its halves are sent. Both ends refuse fields that
// they do not know: what a newer node knows about a job must not get lost on an older one.
package handoff
