package api

import (
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// nowhere is what an endpoint returns, with nothing written, when its first look has found nothing.
const nowhere = 0

// look is one of the two looks of an endpoint for what other nodes may have.
type look struct {
	*face
	last bool
}

// twice has an endpoint look again for what it has not found. The nodes are asked one after the other, this one first: a
// job that is handed over meanwhile, from one that is yet to be asked to one that was asked, is missed, and nobody
// may be told that it does not exist. The second look finds it where it went.
func (f *face) twice(seek func(look, http.ResponseWriter, *http.Request) int) endpoint {
	return func(w http.ResponseWriter, r *http.Request) int {
		if status := seek(look{face: f}, w, r); status != nowhere {
			return status
		}
		return seek(look{face: f, last: true}, w, r)
	}
}

// elsewhere has a request answered by the node that has the job, if this one has not, and else with the error.
func (f look) elsewhere(w http.ResponseWriter, r *http.Request, id job.ID, err error) int {
	if f.Cluster != nil && asFault(err).Kind == fault.NotFound {
		if status := f.Cluster.ToHolder(w, r, id); status != 0 {
			return status
		}
	}
	return f.missed(w, r, err)
}

// resultElsewhere has a request answered by the node that has the result. What the region cannot tell now, another
// node may know by itself.
func (f look) resultElsewhere(w http.ResponseWriter, r *http.Request, key job.Key, err error) int {
	if kind := asFault(err).Kind; f.Cluster != nil && (kind == fault.NotFound || kind == fault.Unavailable) {
		if status := f.Cluster.ToKeyHolder(w, r, key); status != 0 {
			return status
		}
	}
	return f.missed(w, r, err)
}

// missed ends a look that has brought nothing but an error.
func (f look) missed(w http.ResponseWriter, r *http.Request, err error) int {
	if f.Cluster != nil && asFault(err).Kind == fault.NotFound && !f.last {
		return nowhere
	}
	return f.fail(w, r, err)
}
