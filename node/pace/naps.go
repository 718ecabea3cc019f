package pace

import (
	"container/heap"
	"time"
)

// naps are the flows that nothing is to be done about for some time: with work, until their own pace
// allows a turn; without, until it is forgotten that they were slowed down. The next to wake is
// first.
type naps[T any] []*Flow[T]

// until lets a flow sleep until then, whether or not it is asleep.
func (n *naps[T]) until(f *Flow[T], wake time.Time) {
	f.wake = wake
	if f.nap > 0 {
		heap.Fix(n, f.nap-1)
		return
	}
	heap.Push(n, f)
}

// rouse ends the sleep of a flow, if it is asleep.
func (n *naps[T]) rouse(f *Flow[T]) {
	if f.nap > 0 {
		heap.Remove(n, f.nap-1)
	}
}

// Len is part of heap.Interface, as is what follows.
func (n naps[T]) Len() int           { return len(n) }
func (n naps[T]) Less(i, j int) bool { return n[i].wake.Before(n[j].wake) }

func (n naps[T]) Swap(i, j int) {
	n[i], n[j] = n[j], n[i]
	n[i].nap, n[j].nap = i+1, j+1
}

// Push is called by package heap only.
func (n *naps[T]) Push(x any) {
	f := x.(*Flow[T])
	*n = append(*n, f)
	f.nap = len(*n)
}

// Pop is called by package heap only.
func (n *naps[T]) Pop() any {
	last := len(*n) - 1
	f := (*n)[last]
	(*n)[last] = nil
	*n = (*n)[:last]
	f.nap, f.eager = 0, false
	return f
}
