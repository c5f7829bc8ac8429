package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
)

// without allows everything but one verb, and notes who asks for that.
type without struct {
	auth.AlwaysAllow

	verb  string
	asked *[]string
}

func (w without) Decide(ctx context.Context, u user.Info, a auth.Attributes) auth.Decision {
	if a.Verb != w.verb {
		return w.AlwaysAllow.Decide(ctx, u, a)
	}
	*w.asked = append(*w.asked, fmt.Sprintf("%s %s %s/%s", u.GetName(), a.Resource, a.Namespace, a.Name))
	return auth.Decision{Reason: func() string { return "the roles do not say so" }}
}

const unsafeBody = `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`

// TestDeletionsOfObjectsThatCannotBeReadNeedAPermission: the texts are upstream's, and the audit event says that it
// was tried, unless the options are invalid.
func TestDeletionsOfObjectsThatCannotBeReadNeedAPermission(t *testing.T) {
	var asked []string
	for _, allowed := range []bool{true, false} {
		d, log := audited(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata, verbs: [delete]}, {level: None}]",
			func(c *apiserver.Config) {
				if !allowed {
					c.Authorizer = without{verb: "unsafe-delete-ignore-read-errors", asked: &asked}
				}
			})
		d.do("POST", configMaps, `{"metadata":{"name":"a"}}`)
		code, text := http.StatusForbidden,
			`configmaps "a" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", `+
				`reason: the roles do not say so`
		if allowed {
			code, text = http.StatusConflict, "the object is decodable from storage"
		}
		query := "?" + url.Values{"ignoreStoreReadErrorWithClusterBreakingPotential": {"true"}}.Encode()
		for _, c := range []struct {
			path, body, text string
			code             int
			noted            bool
		}{
			{configMaps + "/a", unsafeBody, text, code, true},
			{configMaps + "/a" + query, "", text, code, true},
			{
				configMaps + "/a", strings.Replace(unsafeBody, "{", `{"gracePeriodSeconds":0,`, 1),
				"cannot be set together with .gracePeriodSeconds", http.StatusUnprocessableEntity, false,
			},
			{configMaps + "/a", strings.Replace(unsafeBody, "true", "false", 1), "", http.StatusOK, false},
		} {
			a := d.do("DELETE", c.path, c.body)
			message := fmt.Sprint(tree(t, a.body)["message"])
			if a.StatusCode != c.code || c.text != "" && !strings.Contains(message, c.text) {
				t.Errorf("DELETE %s with %s is answered %d %s, want %d %s", c.path, c.body, a.StatusCode, message, c.code, c.text)
			}
			events := log.take(t)
			if len(events) != 1 {
				t.Fatalf("there are events\n%s", tellAll(events))
			}
			value, noted := events[0].Annotations["apiserver.k8s.io/unsafe-delete-ignore-read-error"]
			if noted != c.noted || value != "" {
				t.Errorf("DELETE %s with %s has annotations %v", c.path, c.body, events[0].Annotations)
			}
		}
	}
	want := "gapless-admin configmaps default/a"
	if len(asked) != 2 || asked[0] != want || asked[1] != want {
		t.Errorf("asked was for %q", asked)
	}
}
