package job_test

import (
	"reflect"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestSecretHeaders(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true,
		"X-Api-Key": true, "api-key": true, "X-Auth-Token": true, "Client-Secret": true, "ApiKey": true, "TOKEN": true,
		"Content-Type": false, "X-Request-Id": false, "Key-Id": false, "Tokens-Used": false, "": false,
	} {
		if job.Secret(name) != want {
			t.Errorf("%q: got %v", name, !want)
		}
	}
}

func TestShownHeadersHideSecrets(t *testing.T) {
	r := decode(t, valid(form{"headers": form{"authorization": "Bearer hunter2", "X-A": "1", "X-Token": ""}}))
	want := map[string]string{"authorization": job.Redacted, "X-A": "1", "X-Token": job.Redacted}
	if got := r.Shown(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if v, _ := r.Header("Authorization"); v != "Bearer hunter2" {
		t.Errorf("the request itself was changed: %q", v)
	}
}

func TestHeaderIsFoundInAnyCase(t *testing.T) {
	r := decode(t, valid(form{"headers": form{"x-A": "1"}}))
	if v, ok := r.Header("X-a"); v != "1" || !ok {
		t.Errorf("got %q, %v", v, ok)
	}
	if v, ok := r.Header("X-B"); v != "" || ok {
		t.Errorf("got %q, %v", v, ok)
	}
}
