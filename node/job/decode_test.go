package job_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// form is a request as callers write it.
type form map[string]any

// valid is the smallest valid request, with changes; a change to nil takes the field away.
func valid(changes form) string {
	f := form{
		"user_id": "u", "idempotent_key": "k", "url": "http://api.example/v1", "method": "POST",
		"webhook_url": "http://hooks.example/in",
	}
	for name, value := range changes {
		f[name] = value
		if value == nil {
			delete(f, name)
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // a test wrote what JSON cannot say
	}
	return string(text)
}

func decode(t rapid.TB, body string) *job.Request {
	t.Helper()
	r, err := job.Decode([]byte(body), job.Hints{}, job.Rules{SharedScope: true, Pools: true})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// wantInvalid checks that err is a fault of the caller that says want.
func wantInvalid(t rapid.TB, err error, want string) {
	t.Helper()
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want invalid: %s", err, want)
	}
}

func TestDecodeTheSmallestRequest(t *testing.T) {
	want := &job.Request{
		UserID: "u", KeyName: "k", URL: "http://api.example/v1", Method: "POST", WebhookURL: "http://hooks.example/in",
		MaxRetries: 4, TimeoutMS: job.UnsetTimeout, Body: []byte{},
	}
	if got := decode(t, valid(nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestDecodeEveryField(t *testing.T) {
	got := decode(t, `{
		"user_id": "u", "idempotent_key": "k", "url": "https://API.example:8443/v1?q=1", "method": "patch",
		"headers": {"X-B": "2", "authorization": "Bearer t", "X-A": ""}, "body": "text", "webhook_url": "http://h/",
		"execute_before": 1, "idempotency_scope": "shared", "max_retries": -1, "timeout_ms": 0, "unknown": {"a": [1]}
	} `)
	want := &job.Request{
		UserID: "u", KeyName: "k", Scope: job.ScopeShared, URL: "https://API.example:8443/v1?q=1", Method: "PATCH",
		Headers:    []job.Header{{Name: "authorization", Value: "Bearer t"}, {Name: "X-A"}, {Name: "X-B", Value: "2"}},
		Body:       []byte("text"),
		WebhookURL: "http://h/", ExecuteBefore: 1, MaxRetries: -1, TimeoutMS: 0,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Gateways send null for what their caller left out.
func TestDecodeNullIsAbsent(t *testing.T) {
	body := `{"user_id":"u","idempotent_key":"k","url":"http://a/","method":"GET","webhook_url":"http://h/","pool_id":null,"headers":null,
		"body":null,"body_base64":null,"execute_before":null,"idempotency_scope":null,"max_retries":null,"timeout_ms":null}`
	if r := decode(t, body); r.MaxRetries != 4 || r.TimeoutMS != job.UnsetTimeout || len(r.Body) != 0 || r.Headers != nil {
		t.Errorf("got %+v", r)
	}
	_, err := job.Decode([]byte(strings.Replace(body, `"http://h/"`, "null", 1)), job.Hints{}, job.Rules{})
	wantInvalid(t, err, "webhook_url is required")
	if r := decode(t, valid(form{"headers": form{"X-A": nil, "X-B": "1"}})); len(r.Headers) != 1 {
		t.Errorf("a header of null was kept: %v", r.Headers)
	}
}

func TestDecodeRefusesBadJSON(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                {"", "invalid json"},
		"white space":            {" \n", "invalid json"},
		"no object":              {`[]`, "the body must be an object, got ["},
		"a text":                 {`"x"`, "the body must be an object"},
		"cut off":                {`{"user_id": "u"`, "invalid json"},
		"a second value":         {valid(nil) + "{}", "invalid json"},
		"a trailing character":   {valid(nil) + "x", "invalid json"},
		"a trailing NUL":         {valid(nil) + "\x00", "invalid json"},
		"a doubled name":         {`{"user_id":"a","user_id":"b"}`, "duplicate name at /user_id"},
		"an unknown one doubled": {`{"x":1,"x":1}`, "duplicate name at /x"},
		"a doubled header":       {`{"headers":{"A":"1","A":"2"}}`, "duplicate name at /headers/A"},
		"a doubled escaped name": {`{"user_id":"a","user\u005fid":"b"}`, "duplicate name at /user_id"},
		"bytes that are no text": {"{\"user_id\":\"\xff\"}", "invalid json"},
		"half a surrogate":       {`{"user_id":"\ud800"}`, "invalid json"},
		"a raw control":          {"{\"user_id\":\"a\nb\"}", "invalid json"},
		"a number for a text":    {`{"user_id":1}`, "user_id must be a string, got number"},
		"a text for a number":    {`{"max_retries":"4"}`, "max_retries must be an integer of 64 bits, got string"},
		"a fraction":             {`{"max_retries":1.5}`, "max_retries must be an integer of 64 bits, got 1.5"},
		"over 64 bits":           {`{"execute_before":9223372036854775808}`, "execute_before must be an integer of 64 bits"},
		"headers in a list":      {`{"headers":["a"]}`, "headers must be an object of strings, got ["},
		"a header in a list":     {`{"headers":{"X-A":["a"]}}`, "headers/X-A must be a string, got ["},
		"a deep value":           {`{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "invalid json"},
	} {
		_, err := job.Decode([]byte(c.body), job.Hints{}, job.Rules{})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// Names are exact: what is spelled in another way is unknown, and so ignored.
func TestDecodeNamesAreExact(t *testing.T) {
	if r := decode(t, valid(form{"Body": "x", "MAX_RETRIES": 9, "maxRetries": 9})); len(r.Body) != 0 || r.MaxRetries != 4 {
		t.Errorf("got %+v", r)
	}
	_, err := job.Decode([]byte(valid(form{"user_id": nil, "User_ID": "u"})), job.Hints{}, job.Rules{})
	wantInvalid(t, err, "user_id is required")
}

// A request that breaks many rules is told of the first one, in the order that callers know.
func TestDecodeOrderOfChecks(t *testing.T) {
	broken := form{
		"execute_before": -1, "user_id": "", "idempotent_key": nil, "max_retries": 101, "idempotency_scope": "all",
		"url": nil, "method": "", "webhook_url": "",
	}
	for _, step := range []struct {
		want string
		mend form
	}{
		{"execute_before must not be negative, got -1", form{"execute_before": 0}},
		{"user_id is required", form{"user_id": "a\x00b"}},
		{"user_id must not contain a NUL character", form{"user_id": "u"}},
		{"idempotent_key is required", form{"idempotent_key": "k"}},
		{"max_retries must be between -1 and 100, got 101", form{"max_retries": 100}},
		{`idempotency_scope must be "user" or "shared", got "all"`, form{"idempotency_scope": "shared"}},
		{`idempotency_scope "shared" is not enabled on this node`, form{"idempotency_scope": "user"}},
		{"url is required", form{"url": "http://other.example/", "pool_id": "p"}},
		{"url and pool_id exclude each other", form{"pool_id": nil}},
		{"method is required", form{"method": "GET"}},
		{"webhook_url is required", form{"webhook_url": "http://hooks.example/"}},
		{"url must have a host that this node allows, got \"other.example\"", form{"url": "http://api.example/"}},
	} {
		_, err := job.Decode([]byte(valid(broken)), job.Hints{}, job.Rules{URLDomains: []string{"api.example"}})
		wantInvalid(t, err, step.want)
		for name, value := range step.mend {
			broken[name] = value
		}
	}
	if _, err := job.Decode([]byte(valid(broken)), job.Hints{}, job.Rules{URLDomains: []string{"api.example"}}); err != nil {
		t.Error(err)
	}
}

func TestDecodeRanges(t *testing.T) {
	for name, c := range map[string]struct {
		change form
		want   string // empty: accepted
	}{
		"retries until success":    {form{"max_retries": -1}, ""},
		"no retries":               {form{"max_retries": 0}, ""},
		"most retries":             {form{"max_retries": 100}, ""},
		"too few retries":          {form{"max_retries": -2}, "max_retries must be between"},
		"a deadline in the past":   {form{"execute_before": 1}, ""},
		"no timeout":               {form{"timeout_ms": 0}, ""},
		"longest timeout":          {form{"timeout_ms": 86400000}, ""},
		"too long a timeout":       {form{"timeout_ms": 86400001}, "timeout_ms must be between 0 and 86400000"},
		"the unset timeout itself": {form{"timeout_ms": -1}, "timeout_ms must be between 0 and 86400000, got -1"},
		"user scope":               {form{"idempotency_scope": "user"}, ""},
		"default scope":            {form{"idempotency_scope": ""}, ""},
		"scope in capitals":        {form{"idempotency_scope": "Shared"}, "idempotency_scope must be"},
	} {
		_, err := job.Decode([]byte(valid(c.change)), job.Hints{}, job.Rules{})
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.want != "" {
			wantInvalid(t, err, c.want)
		}
	}
}

func TestDecodePools(t *testing.T) {
	pool := valid(form{"url": nil, "pool_id": "gpu"})
	if r := decode(t, pool); r.PoolID != "gpu" || r.URL != "" {
		t.Errorf("got %+v", r)
	}
	_, err := job.Decode([]byte(pool), job.Hints{}, job.Rules{})
	wantInvalid(t, err, `pool_id is not available on this node, got "gpu"`)
}

func TestHintMaxRetries(t *testing.T) {
	for hint, want := range map[string]int{"": 7, "  ": 7, "2": 2, " 0 ": 0, "-1": -1, "100": 100} {
		r, err := job.Decode([]byte(valid(form{"max_retries": 7})), job.Hints{MaxRetries: hint}, job.Rules{})
		if err != nil || r.MaxRetries != want {
			t.Errorf("%q: got %+v, %v", hint, r, err)
		}
	}
	for hint, want := range map[string]string{
		"many": "X-Aqueduct-Max-Retries must be an integer", "1.0": "must be an integer", "0x1": "must be an integer",
		"101": "X-Aqueduct-Max-Retries must be between -1 and 100, got 101",
		"-2":  "X-Aqueduct-Max-Retries must be between -1 and 100, got -2",
	} {
		_, err := job.Decode([]byte(valid(nil)), job.Hints{MaxRetries: hint}, job.Rules{})
		wantInvalid(t, err, want)
	}
	// The form of the header comes before the fields, its range among them.
	_, err := job.Decode([]byte(`{}`), job.Hints{MaxRetries: "many"}, job.Rules{})
	wantInvalid(t, err, "X-Aqueduct-Max-Retries")
	_, err = job.Decode([]byte(`{}`), job.Hints{MaxRetries: "101"}, job.Rules{})
	wantInvalid(t, err, "user_id is required")
}

func TestHintIdempotencyKey(t *testing.T) {
	for name, c := range map[string]struct {
		field any
		hint  string
		want  string
	}{
		"stands in for no field":       {nil, "h", "h"},
		"stands in for an empty field": {"", "h", "h"},
		"gives way to the field":       {"k", "h", "k"},
	} {
		r, err := job.Decode([]byte(valid(form{"idempotent_key": c.field})), job.Hints{IdempotencyKey: c.hint}, job.Rules{})
		if err != nil || r.KeyName != c.want {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	_, err := job.Decode([]byte(valid(nil)), job.Hints{IdempotencyKey: "\xff"}, job.Rules{})
	wantInvalid(t, err, "Idempotency-Key must be UTF-8")
}

// Parse tells what cannot be read; only Request applies the rules.
func TestParseDoesNotApplyRules(t *testing.T) {
	d, err := job.Parse([]byte(`{"unknown":1}`), job.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Request(job.Rules{})
	wantInvalid(t, err, "user_id is required")
}

// The request keeps nothing of the buffer that it was read from.
func TestDecodeCopies(t *testing.T) {
	body := []byte(valid(form{"body": "payload", "headers": form{"X-A": "value"}}))
	r := decode(t, string(body))
	again, err := job.Decode(body, job.Hints{}, job.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if !reflect.DeepEqual(r, again) {
		t.Errorf("got %+v", again)
	}
}

func TestBD02_BodyBytes(t *testing.T) {
	raw := []byte{0xff, 0xfe, 0x00, 0xc3, 0x28}
	if r := decode(t, valid(form{"body_base64": base64.StdEncoding.EncodeToString(raw)})); string(r.Body) != string(raw) {
		t.Errorf("got % x", r.Body)
	}
	// As text they are refused: they must not become U+FFFD.
	body := strings.Replace(valid(form{"body": "BYTES"}), "BYTES", string(raw), 1)
	_, err := job.Decode([]byte(body), job.Hints{}, job.Rules{})
	wantInvalid(t, err, "invalid json")
}

func TestBD03_BodyIsNotReprinted(t *testing.T) {
	text := `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`
	if r := decode(t, valid(form{"body": text})); string(r.Body) != text {
		t.Errorf("got %s", r.Body)
	}
}

func TestBodyForms(t *testing.T) {
	for name, c := range map[string]struct {
		change     form
		want, fail string
	}{
		"none":               {form{}, "", ""},
		"empty text":         {form{"body": ""}, "", ""},
		"empty base64":       {form{"body_base64": ""}, "", ""},
		"escapes":            {form{"body": "a\"b\\c\n\u0000\u2028😀"}, "a\"b\\c\n\x00\u2028😀", ""},
		"both":               {form{"body": "a", "body_base64": "YQ=="}, "", "body and body_base64 exclude each other"},
		"both, one empty":    {form{"body": "", "body_base64": "YQ=="}, "", "exclude each other"},
		"no padding":         {form{"body_base64": "YQ"}, "", "body_base64 must be standard base64 with padding"},
		"the URL alphabet":   {form{"body_base64": "-_-_"}, "", "body_base64 must be standard base64"},
		"a line break":       {form{"body_base64": "YWFh\nYWFh"}, "", "body_base64 must be standard base64 with padding and without line breaks"},
		"a break at its end": {form{"body_base64": "YWFh\r\n"}, "", "without line breaks"},
		"bits to spare":      {form{"body_base64": "YR=="}, "", "body_base64 must be standard base64"},
	} {
		r, err := job.Decode([]byte(valid(c.change)), job.Hints{}, job.Rules{})
		if c.fail != "" {
			wantInvalid(t, err, c.fail)
		} else if err != nil || string(r.Body) != c.want {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// Bytes in, same bytes out: every body has exactly one of the two forms, and either keeps it.
func TestBodyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		text, encoding := job.Text(raw, false)
		field := "body"
		if encoding != "" {
			field = "body_base64"
		}
		if r := decode(t, valid(form{field: text})); string(r.Body) != string(raw) {
			t.Errorf("% x became % x", raw, r.Body)
		}
	})
}

// Without that one field a body asks for the same, and is no longer.
func TestWithoutDirectOnly(t *testing.T) {
	body := valid(form{"direct_only": true, "body": "a\u2028<\"", "headers": form{"direct_only": "x", "X-Other": "1"}, "Direct_Only": 1})
	rest, err := job.WithoutDirectOnly([]byte(body))
	if err != nil || len(rest) > len(body) {
		t.Fatalf("%s became %s, %v", body, rest, err)
	}
	before, err := job.Parse([]byte(body), job.Hints{})
	after, err2 := job.Parse(rest, job.Hints{})
	if err != nil || err2 != nil || !before.DirectOnly() || after.DirectOnly() {
		t.Fatalf("%v, %v: %s became %s", err, err2, body, rest)
	}
	if a, b := decode(t, body), decode(t, string(rest)); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v became %+v", a, b)
	}
	if _, err := job.WithoutDirectOnly([]byte("[]")); !fault.Is(err, fault.Invalid) {
		t.Errorf("no object: %v", err)
	}
}

// FuzzDecode: any bytes are a request that keeps every promise of its type, or a fault of the caller.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(valid(nil)), "", "")
	f.Add([]byte(valid(form{"headers": form{"A": "1", "a": "2"}, "body_base64": "//4="})), " 3", "key")
	f.Add([]byte(`{"user_id":1e3,"headers":{"\u0000":[{}]}}`), "x", "\xff")
	f.Add([]byte(valid(form{"url": "http://[fe80::1%25eth0]:80/", "method": "poſt"})), "-1", "")
	f.Fuzz(func(t *testing.T, body []byte, retries, key string) {
		r, err := job.Decode(body, job.Hints{MaxRetries: retries, IdempotencyKey: key}, job.Rules{SharedScope: true, Pools: true})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("a fault of ours: %v", err)
			}
			return
		}
		checkRequest(t, r)
	})
}

func checkRequest(t *testing.T, r *job.Request) {
	t.Helper()
	if r.UserID == "" || strings.ContainsRune(r.UserID, 0) || r.KeyName == "" || r.Method == "" || r.Method != strings.ToUpper(r.Method) {
		t.Errorf("a field is missing or not in its form: %+v", r)
	}
	if (r.URL == "") == (r.PoolID == "") || job.TargetOf(r.WebhookURL) == "" || (r.URL != "" && job.TargetOf(r.URL) == "") {
		t.Errorf("no place to go: %+v", r)
	}
	if r.MaxRetries < -1 || r.MaxRetries > 100 || r.TimeoutMS < job.UnsetTimeout || r.TimeoutMS > job.MaxTimeoutMS || r.ExecuteBefore < 0 {
		t.Errorf("a number is out of range: %+v", r)
	}
	for i, h := range r.Headers {
		if strings.ContainsAny(h.Name+h.Value, "\r\n\x00") || h.Name == "" {
			t.Errorf("a header that no request may have: %q", h)
		}
		if i > 0 && strings.EqualFold(h.Name, r.Headers[i-1].Name) {
			t.Errorf("two headers %q", h.Name)
		}
	}
	for _, url := range []string{r.URL, r.WebhookURL} {
		if _, err := http.NewRequestWithContext(t.Context(), r.Method, url, nil); err != nil {
			t.Errorf("it can never be sent: %v", err)
		}
	}
}
