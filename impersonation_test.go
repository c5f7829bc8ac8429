package gapless_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// TestImpersonationFollowsUpstreamsRules asks who the caller is, as the administrator, who may
// impersonate everybody, and as a user who may not.
func TestImpersonationFollowsUpstreamsRules(t *testing.T) {
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t)})
	admin, jane := g.client(g.own), g.client()
	for _, c := range []struct {
		headers []string
		want    string // username, groups, uid, extra; or the message
		code    int
	}{
		{[]string{"Impersonate-User", "bob"}, "bob [system:authenticated] <nil> <nil>", 201},
		{
			[]string{"Impersonate-User", "bob", "Impersonate-Group", "a", "Impersonate-Group", "b"},
			"bob [a b system:authenticated] <nil> <nil>", 201,
		},
		{
			[]string{"Impersonate-User", "bob", "Impersonate-Group", "system:authenticated"},
			"bob [system:authenticated] <nil> <nil>", 201,
		},
		{
			[]string{"Impersonate-User", "bob", "Impersonate-Uid", "7", "Impersonate-Extra-Acme.com%2fproject", "x"},
			"bob [system:authenticated] 7 map[acme.com/project:[x]]", 201,
		},
		{
			[]string{"Impersonate-User", "system:serviceaccount:a:b"},
			"system:serviceaccount:a:b [system:serviceaccounts system:serviceaccounts:a system:authenticated] <nil> <nil>", 201,
		},
		{
			[]string{"Impersonate-User", "system:serviceaccount:a:b", "Impersonate-Group", "x"},
			"system:serviceaccount:a:b [x system:authenticated] <nil> <nil>", 201,
		},
		{[]string{"Impersonate-User", "bob", "Impersonate-Group", "system:unauthenticated"}, "", 403},
		{[]string{"Impersonate-User", "system:anonymous"}, "", 403},
		{[]string{"Impersonate-Group", "system:masters"}, "without impersonating a user name", 400},
		{[]string{"Impersonate-Uid", "7"}, "without impersonating a user name", 400},
		{[]string{"Impersonate-Extra-A", "7"}, "without impersonating a user name", 400},
		{[]string{"Impersonate-User", ""}, "must have one value that is not empty", 400},
		{[]string{"Impersonate-User", "a", "Impersonate-User", "b"}, "must have one value that is not empty", 400},
		{
			[]string{"Impersonate-User", "a", "Impersonate-Uid", "1", "Impersonate-Uid", "2"},
			"must have one value that is not empty", 400,
		},
		{[]string{"Impersonate-User", "a", "Impersonate-Group", ""}, "names no group", 400},
		{[]string{"Impersonate-User", "a", "Impersonate-Role", "x"}, "the header Impersonate-Role is not known", 400},
		{[]string{"Impersonate-User", "a", "Impersonate-Extra-", "x"}, "the header Impersonate-Extra- is not known", 400},
		{[]string{"Impersonate-User", "a\xff"}, "is not UTF-8", 400},
		{[]string{"Impersonate-User", "a", "X-Remote-User", "b"}, "trusts no front proxy", 403},
	} {
		code, answer := g.do(admin, "POST", reviewSelf, "{}", c.headers...)
		got, _ := answer["message"].(string)
		if who, is := at(answer, "status", "userInfo").(map[string]any); is {
			got = fmt.Sprint(who["username"], " ", who["groups"], " ", who["uid"], " ", who["extra"])
		}
		if code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%q: %d %s\nwant %d %s", c.headers, code, got, c.code, c.want)
		}
		code, answer = g.do(jane, "POST", reviewSelf, "{}", append(bearer("secret"), c.headers...)...)
		if code != 403 && code != 400 || c.code == 201 && code != 403 {
			t.Errorf("%q by a user who may not: %d %v", c.headers, code, answer)
		}
		if code, _ := g.do(jane, "POST", reviewSelf, "{}", c.headers...); code != http.StatusUnauthorized {
			t.Errorf("%q by nobody: %d", c.headers, code)
		}
	}
}

// TestWhatIsImpersonatedIsRefusedByName checks which permission each part needs.
func TestWhatIsImpersonatedIsRefusedByName(t *testing.T) {
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t)})
	for user, want := range map[string]string{
		"bob": `users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group ` +
			`"" at the cluster scope`,
		"system:serviceaccount:a:b": `serviceaccounts "b" is forbidden: User "jane" cannot impersonate resource ` +
			`"serviceaccounts" in API group "" in the namespace "a"`,
		"system:serviceaccount:a": `users "system:serviceaccount:a" is forbidden: User "jane" cannot impersonate resource ` +
			`"users" in API group "" at the cluster scope`,
	} {
		code, answer := g.do(g.client(), "GET", "/api/v1/namespaces", "", append(bearer("secret"), "Impersonate-User", user)...)
		if code != 403 || answer["message"] != want {
			t.Errorf("%s: %d %v", user, code, answer["message"])
		}
	}
}

// TestAnImpersonatedUserHasOnlyHisRights sends each kind of request as another user, who may do
// nothing.
func TestAnImpersonatedUserHasOnlyHisRights(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	for _, c := range [][2]string{
		{"GET", "/api/v1/namespaces"},
		{"GET", "/api/v1/namespaces?watch=1"},
		{"GET", "/api/v1/namespaces/default"},
		{"POST", "/api/v1/namespaces"},
		{"PUT", "/api/v1/namespaces/default"},
		{"PATCH", "/api/v1/namespaces/default"},
		{"DELETE", "/api/v1/namespaces/default"},
		{"DELETE", "/api/v1/namespaces/default/configmaps"},
		{"POST", defaultAccount + "/token"},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews"},
		{"POST", "/gapless/v1/compact"},
		{"GET", "/metrics"},
		{"GET", "/openid/v1/jwks"},
	} {
		code, answer := g.do(g.client(g.own), c[0], c[1], "{}", "Impersonate-User", "bob")
		if text, _ := answer["message"].(string); code != 403 || !strings.Contains(text, `User "bob"`) {
			t.Errorf("%s %s: %d %v", c[0], c[1], code, answer)
		}
	}
	for _, path := range []string{"/version", "/livez"} { // of everybody: the role system:public-info-viewer
		if code, _ := g.do(g.client(g.own), "GET", path, "", "Impersonate-User", "bob"); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := g.do(g.client(g.own), "GET", "/api/v1/namespaces", "", "Impersonate-User", "bob", "Impersonate-Group",
		"system:masters"); code != 200 {
		t.Errorf("as an administrator: %d", code)
	}
}
