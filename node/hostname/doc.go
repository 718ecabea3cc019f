// Package hostname reads the host[:port] of a URL as a resolver would, so that what leads to one place has
// one name.
package hostname
