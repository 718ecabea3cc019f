// Package job says what a job is: the request a caller made, who it belongs to, where it waits, the
// states it passes through and their order.
//
// Everything here is a value. Nothing reads a clock, a disk or the network; time comes in as an
// argument, in Unix milliseconds where it is part of a record. The struct tags number the fields of
// the stored form: a number is never reused, and a field that is added has a usable zero.
package job
