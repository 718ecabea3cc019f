// Package results is what the nodes of a region remember together, in Valkey: which job a key became, and
// what it answered.
//
// A node that is about to store a job claims its key, so that the key becomes one job even when its
// callers reach several nodes at once. A claim answers nobody until the job is stored; a node that dies in between
// leaves one that soon ends. What a key became and what it answered is written behind the scenes, again and again
// until Valkey has it, as long as there is room for what waits. What a process leaves unwritten, the next one is
// to be reminded of, and Valkey itself when it has lost its data or something was left out for lack of room.
//
// Nothing here is needed to accept or to run a job. When Valkey does not answer in time, the node
// goes on with what it knows itself, and counts that; a key that is sent to two nodes meanwhile may run twice.
//
// A nil *Region remembers nothing and claims everything.
package results
