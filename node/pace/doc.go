// Package pace says when work may be sent to a target, whose work is next, and why other work waits.
//
// A Target is all of it for one target. It is made of a Budget, which bounds rate and open dispatches for
// all tenants together, and a Share, which divides the turns among flows, one for each tenant. ReadSignal
// reads what an answer says about pace, and Backoff turns silence into a wait. With its Budget a target has a
// Breaker, which says whether calls may go past the queue; it learns from every attempt and holds back none.
//
// Everything here is a value: there is no clock, no goroutine, no lock and no randomness. The time
// and the random draw come in as arguments, and one owner at a time calls. It does not know what
// a lane or a job is.
//
// # What is guaranteed
//
//   - At a constant rate there are in any span of t seconds at most RPS*(t+Slack)+1 dispatches, however
//     many tenants there are. A rate that is lowered holds from the next dispatch on, which is at most one
//     interval of the new rate away.
//   - No dispatch starts while MaxConcurrent or more are open.
//   - Of settings that are divided into parts a budget takes one. What headers ask for is not divided: it was said to
//     this caller.
//   - Headers of a target only lower what is configured, to MinRPS and one open dispatch at least. What they
//     ask for holds for Settings.HintTTL after it was last heard. Then each success raises a rate by 5 %, and
//     as many successes as dispatches may be open raise that number by one, up to what is configured.
//   - While two flows have work, what they get differs from their weights by at most one turn of each. A
//     flow that comes to have work waits for at most one turn of each other one. Virtual time never goes back.
//   - A flow halves its own rate with each retryable failure, down to MinRPS, and raises it by 5 % with each
//     success. A Retry-After that comes with a failure makes it wait. Nobody else waits for it, and
//     it saves nothing up: it takes part again like a flow that comes new.
//   - A Breaker is open for as long as the longest cooldown that was asked for, and no longer. It does not open
//     unless an answer to a direct call tells of overload, or three attempts could not connect and no answer came
//     in between.
//   - The next dispatch is found in the logarithm of the number of flows, and a flow that waits costs some
//     200 bytes.
//
// # Where hints come from
//
//	X-Aqueduct-Rps             the target's rate; 0 is MinRPS
//	X-Aqueduct-Max-Concurrent  open dispatches at the target; 0 says nothing
//	Endpoint-Load-Metrics      the target's rate by the fill of its cache, unless the answer has an Rps
//	                           header: 2 from 70 % on, 0.5 from 90 %, 0.25 from 97 %
//	X-Aqueduct-Slow-Start      whether SlowStartRPS is the pace when the target next starts from nothing
//	X-Aqueduct-Account-Queue   whether each tenant has a queue of its own; kept for the owner
//	X-Aqueduct-Max-Backlog     how much may wait; kept for the owner
//	X-Aqueduct-No-Retry        the job is not tried again
//	Retry-After, or the reset  when the tenant may call again, read from failures only
//	time of a rate limit
//
// What the answer to a direct call says about others is read by ReadOverload alone.
//
// Each of our own headers has an X-Aquifer alias, which counts if nothing can be read of the X-Aqueduct
// one. A value that cannot be read to the letter is ignored.
package pace
