// Package cluster decides which node of a region owns a tenant, and brings a request that arrived
// anywhere else to that node, in one hop.
//
// A View tells who is there. Rank puts the members in the order in which they may own a tenant,
// Owners names the first of them that can be used, and a Forwarder carries the request there and the
// answer back. Peer headers are believed only when a Seal proves that a peer wrote them.
//
// As long as views agree, a tenant has one owner. Where they differ, the node that was asked and the
// node that was chosen both decide with the same function over what each knows, and a node that comes
// to another owner refuses and names it; so two nodes take work of one tenant only while connections
// between nodes fail, not because one of them heard something later than the other.
//
// Placement does not move jobs: what a node has accepted stays there until it is done or handed over.
package cluster
