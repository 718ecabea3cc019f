package main

import (
	"errors"
	"fmt"
	"io"
)

// exitCode is how a command ended, for the shell that started it.
type exitCode int

// The exit codes. A process that a signal ends has 128 and the number of the signal.
const (
	exitDone      exitCode = 0
	exitFailed    exitCode = 1
	exitUsage     exitCode = 2
	exitJobFailed exitCode = 3
	exitNotFound  exitCode = 4
	exitTryLater  exitCode = 5
)

// exitTable is the reference of the codes, as --help shows it.
const exitTable = `Exit codes:
  0    done; a server has stopped as it was asked to
  1    failed
  2    wrong usage, bad configuration, or a job that the node calls invalid
  3    the job failed (job watch, job submit --wait)
  4    there is no such job, or the node is in no cluster
  5    no node answers, or it takes no work now: try again later
  130  ended by Ctrl-C (143: by SIGTERM) before its work was done
`

// failure is an error with the exit code that it means.
type failure struct {
	code exitCode
	err  error // nil if what there was to say has been said
}

func fail(code exitCode, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...)}
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// report tells the user how a command ended and returns its exit code.
func report(stderr io.Writer, err error) exitCode {
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case !errors.As(err, &f):
		f = &failure{code: exitFailed, err: err}
	}
	if f.err != nil {
		_, _ = fmt.Fprintf(stderr, "aquifer: %v\n", err)
	}
	return f.code
}
