// Package link connects a node to Valkey, in a way that a Valkey which is slow, down or moving can delay
// a caller only for as long as was agreed.
//
// A Link connects when it is first used, and again by itself whenever the connection is gone, resolving
// names anew. A server that has become a replica is left at once. When three calls have failed one
// after the other, further ones fail without waiting, but for one every tenth of a second that finds out whether Valkey is
// back. An answer that comes too late for its caller has the next one ask at once.
// A Valkey that answers and refuses, because of a password or for want of memory, is not down; what it says is logged once
// a minute.
//
// Single servers, Sentinel and Valkey Cluster are reached alike; see Config.URL.
package link
