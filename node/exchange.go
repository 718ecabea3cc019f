package node

import (
	"io"
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/egress"
)

// exchange is an http.RoundTripper over a guarded client: for whatever speaks net/http and must not have a way out of its
// own. It follows no redirects.
type exchange struct{ client *egress.Client }

// RoundTrip implements http.RoundTripper.
func (x exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	return x.client.WithoutRedirects().Do(r.Context(), egress.Request{
		Method: r.Method, URL: r.URL.String(), Body: body, Header: fields(r.Header),
	})
}

// fields iterates over the fields of a header, each value on its own.
func fields(h http.Header) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for name, values := range h {
			for _, v := range values {
				if !yield(name, v) {
					return
				}
			}
		}
	}
}
