package dispatch

import (
	"errors"
	"net"
	"strings"
)

// words are the text of an error without the addresses in it: they are not the caller's to know. He
// could map a private network with what its names resolve to, and with who resolves them.
func words(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok {
		bare := *op
		bare.Source, bare.Addr = nil, nil
		text = strings.ReplaceAll(text, op.Error(), bare.Error())
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		bare := net.DNSError{Name: lookup.Name, Err: lookupWords(lookup)}
		text = strings.ReplaceAll(text, lookup.Error(), bare.Error())
	}
	return text
}

// lookupWords says why a name did not resolve. Of a resolver that could not be asked, package net keeps
// the text of another error, with its address.
func lookupWords(e *net.DNSError) string {
	switch {
	case e.IsTimeout:
		return "i/o timeout"
	case strings.Contains(e.Err, ": "):
		return "the resolver cannot be reached"
	default:
		return e.Err
	}
}

// lateError says which limit an attempt met, in the same words wherever it was noticed: by the context,
// a connection or the resolver.
type lateError struct {
	text string
	err  error
}

// Error returns the text alone.
func (e *lateError) Error() string { return e.text }

// Unwrap returns the error by which the limit was noticed.
func (e *lateError) Unwrap() error { return e.err }
