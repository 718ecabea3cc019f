//go:build !crashpoints

package crashpoint

// Reach marks that the process has come to p.
func Reach(Point) {}
