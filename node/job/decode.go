package job

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// Hints are the parts of a job that may come in request headers.
type Hints struct {
	MaxRetries     string // overrides max_retries unless empty
	IdempotencyKey string // stands in for an absent idempotent_key
}

// maxRetriesHeader is the header of Hints.MaxRetries.
const maxRetriesHeader = "X-Aqueduct-Max-Retries"

// Rules are the node's own limits on requests.
type Rules struct {
	// URLDomains and WebhookDomains are the hosts that a URL may have, with their subdomains;
	// empty allows all.
	URLDomains, WebhookDomains []string
	SharedScope                bool // idempotency_scope "shared" is allowed
	// Pools allows pool_id.
	Pools bool
}

// wire is the request as it stands in JSON. A null counts as absent.
type wire struct {
	UserID        *string            `json:"user_id"`
	IdempotentKey *string            `json:"idempotent_key"`
	URL           *string            `json:"url"`
	PoolID        *string            `json:"pool_id"`
	Method        *string            `json:"method"`
	Headers       map[string]*string `json:"headers"`
	Body          *string            `json:"body"`
	BodyBase64    *string            `json:"body_base64"`
	WebhookURL    *string            `json:"webhook_url"`
	ExecuteBefore *int64             `json:"execute_before"`
	Scope         *string            `json:"idempotency_scope"`
	MaxRetries    *int64             `json:"max_retries"`
	TimeoutMS     *int64             `json:"timeout_ms"`
	DirectOnly    *bool              `json:"direct_only"`

	// retriesBy is what MaxRetries was said by, the field or the header.
	retriesBy string
}

// Decode reads a request from its JSON form and checks it: Parse and Request in one.
func Decode(body []byte, h Hints, rules Rules) (*Request, error) {
	d, err := Parse(body, h)
	if err != nil {
		return nil, err
	}
	return d.Request(rules)
}

// Draft is a request that could be read; whether it may be accepted is not known yet.
type Draft struct{ wire wire }

// Parse reads a request from its JSON form. Field names are exact, unknown ones are ignored, a name
// that stands twice, bytes that are not UTF-8 and anything behind the one JSON value are refused.
// Every error is a fault of kind Invalid that names the field, the rule and the value. It keeps
// nothing of body.
func Parse(body []byte, h Hints) (*Draft, error) {
	d := Draft{wire{retriesBy: "max_retries"}}
	if err := json.Unmarshal(body, &d.wire); err != nil {
		return nil, Unreadable(err, kindWanted)
	}
	if err := d.wire.applyHints(h); err != nil {
		return nil, err
	}
	return &d, nil
}

// UserID is who the draft says it is from; empty if it does not.
func (d *Draft) UserID() string { return text(d.wire.UserID) }

// DirectOnly reports whether the draft asks for an attempt past the queue and for nothing else.
func (d *Draft) DirectOnly() bool { return d.wire.DirectOnly != nil && *d.wire.DirectOnly }

// WithoutDirectOnly is a body that Parse has read, without what DirectOnly tells, and no longer.
func WithoutDirectOnly(body []byte) ([]byte, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, Unreadable(err, kindWanted)
	}
	delete(fields, "direct_only")
	return json.Marshal(fields)
}

// Request checks the draft. Every error is a fault of kind Invalid, as of Parse.
func (d *Draft) Request(rules Rules) (*Request, error) {
	r, err := d.wire.request()
	if err != nil {
		return nil, err
	}
	if err := rules.check(r); err != nil {
		return nil, err
	}
	return r, nil
}

// Unreadable says in our words what a decoder of JSON has found in a body. wanted is what a field has to be.
func Unreadable(err error, wanted func(field string) string) error {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		field := strings.TrimPrefix(string(semantic.JSONPointer), "/")
		if field == "" {
			return fault.New(fault.Invalid, "invalid json: the body must be an object, got %s", semantic.JSONKind)
		}
		return fault.New(fault.Invalid, "%s must be %s, got %s", field, wanted(field), shown(semantic))
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fault.New(fault.Invalid, "invalid json: duplicate name at %s", syntactic.JSONPointer)
		}
		return fault.New(fault.Invalid, "invalid json: %s", strings.TrimPrefix(syntactic.Error(), "jsontext: "))
	}
	return fault.New(fault.Invalid, "invalid json: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
}

func kindWanted(field string) string {
	name, _, nested := strings.Cut(field, "/")
	switch {
	case name == "execute_before" || name == "max_retries" || name == "timeout_ms":
		return "an integer of 64 bits"
	case name == "headers" && !nested:
		return "an object of strings"
	case name == "direct_only":
		return "true or false"
	default:
		return "a string"
	}
}

func shown(e *json.SemanticError) string {
	if len(e.JSONValue) == 0 || len(e.JSONValue) > 100 {
		return e.JSONKind.String()
	}
	return string(e.JSONValue)
}

func (w *wire) applyHints(h Hints) error {
	if raw := strings.TrimSpace(h.MaxRetries); raw != "" {
		n, err := strconv.ParseInt(raw, 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "%s must be an integer, got %q", maxRetriesHeader, h.MaxRetries)
		}
		w.MaxRetries, w.retriesBy = &n, maxRetriesHeader
	}
	if !utf8.ValidString(h.IdempotencyKey) {
		return fault.New(fault.Invalid, "Idempotency-Key must be UTF-8 text, got %q", h.IdempotencyKey)
	}
	if text(w.IdempotentKey) == "" && h.IdempotencyKey != "" {
		w.IdempotentKey = &h.IdempotencyKey
	}
	return nil
}

// request checks the fields in the order that callers know, and brings them into one form.
func (w *wire) request() (*Request, error) {
	if err := w.checkRanges(); err != nil {
		return nil, err
	}
	r := &Request{
		UserID:        text(w.UserID),
		KeyName:       text(w.IdempotentKey),
		URL:           text(w.URL),
		PoolID:        text(w.PoolID),
		Method:        upper(text(w.Method)),
		WebhookURL:    text(w.WebhookURL),
		ExecuteBefore: number(w.ExecuteBefore, 0),
		MaxRetries:    int(number(w.MaxRetries, DefaultMaxRetries)),
		TimeoutMS:     number(w.TimeoutMS, UnsetTimeout),
		Headers:       w.headers(),
	}
	if text(w.Scope) == "shared" {
		r.Scope = ScopeShared
	}
	var err error
	if r.Body, err = w.body(); err != nil {
		return nil, err
	}
	return r, nil
}

func (w *wire) checkRanges() error {
	before, retries, timeout := number(w.ExecuteBefore, 0), number(w.MaxRetries, DefaultMaxRetries), number(w.TimeoutMS, 0)
	switch user := text(w.UserID); {
	case before < 0:
		return fault.New(fault.Invalid, "execute_before must not be negative, got %d", before)
	case user == "":
		return fault.New(fault.Invalid, "user_id is required")
	case strings.ContainsRune(user, 0):
		return fault.New(fault.Invalid, "user_id must not contain a NUL character, got %q", user)
	case text(w.IdempotentKey) == "":
		return fault.New(fault.Invalid, "idempotent_key is required")
	case retries < MinMaxRetries || retries > MaxMaxRetries:
		return fault.New(fault.Invalid, "%s must be between %d and %d, got %d", w.retriesBy, MinMaxRetries, MaxMaxRetries, retries)
	case timeout < 0 || timeout > MaxTimeoutMS:
		return fault.New(fault.Invalid, "timeout_ms must be between 0 and %d, got %d", MaxTimeoutMS, timeout)
	}
	switch scope := text(w.Scope); scope {
	case "", "user", "shared":
		return nil
	default:
		return fault.New(fault.Invalid, `idempotency_scope must be "user" or "shared", got %q`, scope)
	}
}

func (w *wire) headers() []Header {
	var list []Header
	for name, value := range w.Headers {
		if value != nil {
			list = append(list, Header{Name: name, Value: *value})
		}
	}
	slices.SortFunc(list, func(a, b Header) int {
		if c := strings.Compare(canonical(a.Name), canonical(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

func (w *wire) body() ([]byte, error) {
	if w.BodyBase64 == nil {
		return []byte(text(w.Body)), nil
	}
	if w.Body != nil {
		return nil, fault.New(fault.Invalid, "body and body_base64 exclude each other: give one of them")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(*w.BodyBase64)
	if at := strings.IndexAny(*w.BodyBase64, "\r\n"); at >= 0 { // which the decoder skips, also the strict one
		err = base64.CorruptInputError(at)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "body_base64 must be standard base64 with padding and without line breaks: %v", err)
	}
	return bytes.Clone(raw), nil
}

// upper turns ASCII letters into upper case. A letter outside ASCII stays as it is and makes the
// method invalid, also where its upper case is in ASCII.
func upper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func number(n *int64, absent int64) int64 {
	if n == nil {
		return absent
	}
	return *n
}
