package egress

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"sync"
)

// outgoing is a request as it goes over an HTTP/1.1 connection.
type outgoing struct {
	bytes []byte
	err   error                         // why the request cannot be sent
	field func(name, value string) bool // add, made once because it would be made for each request
}

// outgoings keeps them for the next request.
type outgoings struct{ pool sync.Pool }

// keptBytes is the largest buffer that is kept.
const keptBytes = 64 << 10

func (p *outgoings) get() *outgoing {
	if o, ok := p.pool.Get().(*outgoing); ok {
		return o
	}
	o := new(outgoing)
	o.field = o.add
	return o
}

func (p *outgoings) put(o *outgoing) {
	if cap(o.bytes) <= keptBytes {
		p.pool.Put(o)
	}
}

// write makes the line and header of r, which goes to u. The length of the body is told once, by us,
// and in no other way.
func (o *outgoing) write(r *Request, u *url.URL) error {
	uri := u.RequestURI()
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return errURL
		}
	}
	b := append(o.bytes[:0], r.Method...)
	b = append(b, ' ')
	b = append(b, uri...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, u.Host...)
	o.bytes, o.err = append(b, "\r\n"...), nil
	if r.Header != nil {
		r.Header(o.field)
	}
	if o.err != nil {
		return o.err
	}
	b = o.bytes
	if len(r.Body) > 0 || announcesBody(r.Method) {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	o.bytes = append(b, "\r\n"...)
	return nil
}

// add adds a field of the header; false ends the header because it is not in order.
func (o *outgoing) add(name, value string) bool {
	if o.err = checkField(name, value); o.err != nil {
		return false
	}
	b := append(o.bytes, name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(value)...)
	o.bytes = append(b, "\r\n"...)
	return true
}

// announcesBody reports whether a request of this method says so if it has no body (RFC 9110, 8.6).
func announcesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}
