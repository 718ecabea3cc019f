package storetest

import "errors"

// Fault decides what becomes of a change before it is made; method is the name of the store's method.
// With apply the change is made; with an error the caller gets it. So (true, nil) is the normal course,
// (false, err) is a failure, and (true, err) is a failure that landed all the same.
type Fault func(method string) (apply bool, err error)

// ErrDisk is the error of a disk that fails.
var ErrDisk = errors.New("the disk is on fire")

// Failing is a fault of a method: its next n calls return ErrDisk, and land all the same if they are to.
func Failing(method string, n int, landed bool) Fault {
	return func(m string) (bool, error) {
		if m != method || n == 0 {
			return true, nil
		}
		n--
		return landed, ErrDisk
	}
}

// With is the same fault with another error.
func (f Fault) With(other error) Fault {
	return func(m string) (bool, error) {
		apply, err := f(m)
		if err != nil {
			err = other
		}
		return apply, err
	}
}
