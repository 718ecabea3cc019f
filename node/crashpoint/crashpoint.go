// Package crashpoint names the gaps between two steps of a job's life, so that a test can kill the
// process in each of them.
//
// In a normal build Reach does nothing and costs nothing. A build with the tag crashpoints can be
// told to kill itself, the way kill -9 does, when it reaches a point.
package crashpoint

// Point is one gap between two steps.
type Point string

// The gaps, in the order of a job's life.
const (
	Stored    Point = "stored"    // the job is durable, its caller does not know yet
	Begun     Point = "begun"     // the attempt is recorded, nothing is sent
	Answered  Point = "answered"  // the target has answered, nothing is recorded
	Recorded  Point = "recorded"  // the result is recorded, nobody is told
	Delivered Point = "delivered" // the receiver has the result, the delivery is not recorded
	Settled   Point = "settled"   // the delivery is recorded
)

// Points lists every point.
func Points() []Point { return []Point{Stored, Begun, Answered, Recorded, Delivered, Settled} }
