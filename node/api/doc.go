// Package api is the HTTP face of a node, and the one place that turns a fault into a status.
//
// It reads and checks requests, hands them to the intake, shows jobs, and streams what happens to
// them. It decides nothing about a job and keeps nothing about one: a handler holds no slot, no lock
// and no place in a queue while it waits for a slow client.
//
//	POST /jobs                        take a job: 201, or 200 for a key that is known
//	POST /proxy                       call a target now, and relay its answer or stream the queued job
//	GET  /jobs                        list jobs, the newest first
//	GET  /jobs/{id}                   show a job
//	GET  /jobs/{id}/stream            what happens to a job, as server-sent events
//	GET  /results                     what the job of a key has answered
//	POST /jobs/{id}/redrive           run an ended job again: 201
//	POST /jobs/{id}/webhook/redrive   deliver the result of an ended job again: 202
//	GET  /cluster/owner               tell which node answers for a user
//	GET  /health, /ready, /metrics
//
// A request is judged in a fixed order: too large, no memory to read it, not readable, draining, fields,
// key, admission.
//
// Answers are JSON objects and end with a newline. One that refuses has "error" and, where a limit
// was hit, says which. The statuses:
//
//	kind         status  beside the error
//	invalid      400
//	too_large    413     limit_reason, limit, limit_bytes; the connection closes
//	not_found    404
//	conflict     409
//	mismatch     422
//	overloaded   429     limit_reason, limit, current; Retry-After
//	draining     503     Retry-After, X-Aqueduct-Node-State; the connection closes
//	unavailable  503     Retry-After
//	internal     500     never why: that is in the log
//
// A call to /proxy that is for an attempt at once alone, and does not help, is answered with 503, reason and upstream_status.
//
// A stream confirms the end of its job once the client's machine has acknowledged it, which package socket
// tells, and so does a relayed answer. What fits into the buffer of the client's kernel may so count as delivered
// although nobody read it; the stored result is the remedy.
package api
