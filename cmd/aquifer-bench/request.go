package main

import (
	"strconv"
)

// form makes the requests of one run. It is a value and may be used by many goroutines.
type form struct {
	host     string   // of the dispatcher
	targets  []string // host:port of the targets, which get a job in turn
	receiver string   // host:port of the webhook receiver
	tenants  int      // tenants, which submit a job in turn
	first    int      // number of the first tenant
	body     []byte
}

// jobBody is n bytes of text that JSON does not escape.
func jobBody(n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[i%len(letters)]
	}
	return b
}

// append appends the whole request that submits job seq. json is scratch space; it is returned to be
// used again.
func (f form) append(request, json []byte, seq int) (_, _ []byte) {
	json = f.appendJob(json[:0], seq)
	request = append(request, "POST /jobs HTTP/1.1\r\nHost: "...)
	request = append(request, f.host...)
	request = append(request, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	request = strconv.AppendInt(request, int64(len(json)), 10)
	request = append(request, "\r\n\r\n"...)
	return append(request, json...), json
}

// appendJob appends the job. Its number stands in both URLs, so that the sinks know it without
// looking at the body.
func (f form) appendJob(b []byte, seq int) []byte {
	n := int64(seq)
	b = strconv.AppendInt(append(b, `{"user_id":"tenant-`...), int64(f.first+seq%f.tenants), 10)
	b = strconv.AppendInt(append(b, `","idempotent_key":"job-`...), n, 10)
	b = append(append(b, `","url":"http://`...), f.targets[seq%len(f.targets)]...)
	b = strconv.AppendInt(append(b, `/call/`...), n, 10)
	b = append(b, `","method":"POST","headers":{"Content-Type":"text/plain"},"body":"`...)
	b = append(append(b, f.body...), `","webhook_url":"http://`...)
	b = append(append(b, f.receiver...), `/webhook/`...)
	return append(strconv.AppendInt(b, n, 10), `"}`...)
}
