package results

import "iter"

// inBatches writes values, as many in one call as may be. The error is the first one, of the iterator or of a write.
func inBatches[T interface{ size() int }](values iter.Seq2[T, error], write func([]T) error) error {
	var list []T
	bytes := 0
	for v, err := range values {
		if err != nil {
			return err
		}
		if len(list) == batchSize || len(list) > 0 && bytes+v.size() > batchBytes {
			if err := write(list); err != nil {
				return err
			}
			list, bytes = nil, 0 // a call that was given up may still read the old one
		}
		list, bytes = append(list, v), bytes+v.size()
	}
	if len(list) == 0 {
		return nil
	}
	return write(list)
}
