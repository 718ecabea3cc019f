// Package inbound finds out how fast callers may hand in jobs, and tells each of them its part.
//
// A Controller raises the rate while the node keeps up and cuts it when the store answers slower than
// it can or when jobs come in faster than they go out: a quick start up to the rate at which it was
// last cut, careful steps from there on, as in TCP. It is pure. A Meter feeds one from the requests of
// a running node, once a second.
//
// The rate is advice. A caller that ignores it is refused by nobody here: package admit closes intake
// when the node has too little left.
package inbound
