// Package events tells local listeners what happens to a job, and has the words for it.
//
// An event's id is derived from the job's state, not from a log: queued is 1, the dispatch of attempt
// n is 2n, the retry after it 2n+1, and the end follows all attempts with 2·tried+2. So History can
// tell from a stored job alone what a listener has missed, also after a restart, and an id means
// the same for ever. Who asks for something that is no longer kept is told so by a gap event; nothing
// is ever skipped in silence.
//
// The promise to a listener that subscribes first, then reads the job and follows it with Follow: it
// gets each event once and in order, a slow one loses progress but is told so, and the last event
// is the end of the job. The promise to the publishers: they never wait, except in End for one
// confirmation, and a job that nobody listens to costs them next to nothing.
//
// A confirmation says that the client's machine took the end of the job. It cannot say that somebody read
// it: the kernel there takes a small event for a client that is frozen. The stored result is the remedy.
//
// The package writes no HTTP and stores nothing.
package events
