// Package valkey lets the nodes of a region find each other in a Valkey, and places tenants so that no node
// gets more than its capacity before all have theirs.
//
// A View is both the cluster.View and the cluster.Placement of a node. Each node writes a heartbeat that
// expires, and reads all others; who owns a tenant is decided in one script, by bounded-load rendezvous
// hashing (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018): the first
// of the ranked members that has room, and the owner stays as long as it lives and the tenant is active.
// A node remembers the owners of active tenants, and renews those that it owns with its heartbeats, so a
// request of an active tenant asks nobody.
//
// A node that Valkey has not answered for as long as a heartbeat lives asks the others. If none of them reaches
// Valkey, nobody can have taken over from it, and all go on with what they knew last; else its roster is unsettled,
// for to the others it is gone. Type lease has the rules. A Valkey that has lost its data is filled again by the nodes,
// which keep what they knew of each other meanwhile.
//
// All keys begin with one prefix, which only the nodes of one region may share.
package valkey
