package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestWarningsFitIntoTheHeaders: of too many, each is cut to 256 characters, and what comes
// after 4096 is left out.
func TestWarningsFitIntoTheHeaders(t *testing.T) {
	d := openServer(t, nil)
	var fields strings.Builder
	for i := range 700 {
		fmt.Fprintf(&fields, `,"unknown-%d-%s":1`, i, strings.Repeat("é", 300))
	}
	const head = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}`
	a := d.do("POST", configMaps, head+`,"zz":1`+fields.String()+"}")
	if a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %.300s", a.StatusCode, a.body)
	}
	warnings, total := a.Header.Values("Warning"), 0
	for i, w := range warnings {
		text, is := strings.CutPrefix(w, `299 - "`)
		n := len([]rune(strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\`, "")))
		if total += n; !is || n > 256 || i > 0 && n < 256 {
			t.Errorf("warning %d has %d characters: %.80s", i, n, w)
		}
	}
	// The last one begins before the limit.
	if warnings[0] != `299 - "unknown field \"zz\""` || total < 4096 || total >= 4096+256 {
		t.Errorf("%d warnings of %d characters, the first is %s", len(warnings), total, warnings[0])
	}
	long := strings.Repeat("y", 3000)
	if got := d.do("POST",
		configMaps, strings.Replace(head, `"a"`, `"b"`, 1)+`,"`+long+`":1}`).Header.Values("Warning"); len(got) != 1 ||
		!strings.Contains(got[0], long) {
		t.Errorf("a long warning that fits is cut: %.100q", got)
	}
}

func TestRefusalsCarryWarnings(t *testing.T) {
	d := openServer(t, nil)
	a := d.do("POST", configMaps, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"Name":"a"}}`)
	if got := a.Header.Values("Warning"); a.StatusCode != http.StatusUnprocessableEntity || len(got) != 1 ||
		got[0] != `299 - "unknown field \"metadata.Name\""` {
		t.Errorf("%d, warnings %q", a.StatusCode, got)
	}
}

// TestEndpointsAreDeprecated also says that a warning about the kind comes before those about
// the object.
func TestEndpointsAreDeprecated(t *testing.T) {
	d := openServer(t, nil)
	const endpoints = "/api/v1/namespaces/default/endpoints"
	const deprecated = `299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"`
	made := d.do("POST",
		endpoints, `{"metadata":{"name":"a"},"subsets":[{"addresses":[{"ip":"2001:DB8::1"}]}]}`).Header.Values("Warning")
	if len(made) != 2 || made[0] != deprecated || !strings.Contains(made[1], "RFC 5952") {
		t.Errorf("a creation: %q", made)
	}
	for _, c := range []struct{ method, path string }{
		{"GET", endpoints}, {"GET", endpoints + "/a"}, {"DELETE", endpoints + "/a"},
	} {
		if got := d.do(c.method, c.path, "").Header.Values("Warning"); len(got) != 1 || got[0] != deprecated {
			t.Errorf("%s %s: %q", c.method, c.path, got)
		}
	}
	if got := d.do("GET", configMaps, "").Header.Values("Warning"); got != nil {
		t.Errorf("config maps: %q", got)
	}
}

// bearer identifies everybody without a bearer token as somebody.
type bearer struct{}

func (bearer) Authenticate(r *http.Request) (user.Info, error) {
	nobody := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return nil, false, nil
	})
	if _, _, err := authn.Bearer(nobody).AuthenticateRequest(r); err != nil {
		return nil, wire.Unauthorized()
	}
	return &user.DefaultInfo{Name: "somebody", Groups: []string{user.SystemPrivilegedGroup}}, nil
}

func TestATokenAfterTwoSpacesIsIgnoredWithAWarning(t *testing.T) {
	d := openServer(t, func(c *apiserver.Config) { c.Authenticator = bearer{} })
	const want = `299 - "the provided Authorization header contains extra space before the bearer token, and is ignored"`
	a := d.do("GET", configMaps, "", "Authorization: Bearer  abc")
	if got := a.Header.Values("Warning"); a.StatusCode != http.StatusOK || len(got) != 1 || got[0] != want {
		t.Errorf("%d %q", a.StatusCode, got)
	}
	if a := d.do("GET", configMaps, "", "Authorization: Bearer abc"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("one space: %d", a.StatusCode)
	}
}
