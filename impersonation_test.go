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
		{[]string{"Impersonate-User", ""}, "without impersonating a user name", 400},
		{[]string{"Impersonate-User", "a", "Impersonate-Uid", ""}, "must have one value that is not empty", 400},
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

// TestWhatIsImpersonatedIsRefusedByName checks which permission is missing first, of a request in each mode.
func TestWhatIsImpersonatedIsRefusedByName(t *testing.T) {
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t)})
	for user, mode := range map[string]string{
		"bob": "user-info", "system:serviceaccount:a": "user-info", "system:serviceaccount:a:b": "serviceaccount",
		"system:node:n": "arbitrary-node", "system:node:": "user-info",
	} {
		code, answer := g.do(g.client(), "GET", "/api/v1/namespaces", "", append(bearer("secret"), "Impersonate-User", user)...)
		want := `namespaces is forbidden: User "jane" cannot impersonate-on:` + mode +
			`:list resource "namespaces" in API group "" at the cluster scope`
		if code != 403 || answer["message"] != want {
			t.Errorf("%s: %d %v", user, code, answer["message"])
		}
	}
	code, answer := g.do(g.client(), "GET", "/api/v1/namespaces", "", append(bearer("secret"),
		"Impersonate-User", "system:serviceaccount:a:b", "Impersonate-Group", "x")...)
	if want := `serviceaccounts "b" is forbidden: User "jane" cannot impersonate resource "serviceaccounts" in API group ` +
		`"" in the namespace "a"`; code != 403 || answer["message"] != want {
		t.Errorf("a service account with a group: %d %v", code, answer["message"])
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

// TestAPodImpersonatesItsNodeOnly lists pods as the node of the pod that a token is bound to, by real roles: with one that
// allows it, as no other node, and not once it is withdrawn.
func TestAPodImpersonatesItsNodeOnly(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	const (
		namespace = "/api/v1/namespaces/default"
		rbac      = "/apis/rbac.authorization.k8s.io/v1"
	)
	for _, o := range [][2]string{
		{"/api/v1/nodes", `{"metadata":{"name":"n1"}}`},
		{namespace + "/serviceaccounts", `{"metadata":{"name":"agent"}}`},
		{namespace + "/pods", `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"agent","nodeName":"n1",` +
			`"containers":[{"name":"c","image":"i"}]}}`},
		{rbac + "/clusterroles", `{"metadata":{"name":"agent"},"rules":[
{"apiGroups":["authentication.k8s.io"],"resources":["nodes"],"verbs":["impersonate:associated-node"]},
{"apiGroups":[""],"resources":["pods"],"verbs":["impersonate-on:associated-node:list"]}]}`},
		{rbac + "/clusterrolebindings", `{"metadata":{"name":"agent"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"agent"},
"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"agent"}]}`},
		{rbac + "/clusterrolebindings", `{"metadata":{"name":"nodes"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:nodes"}]}`},
	} {
		g.admin("POST", o[0], o[1])
	}
	answer := g.admin("POST", namespace+"/serviceaccounts/agent/token",
		`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`)
	token, _ := at(answer, "status", "token").(string)
	as := func(node, path string) (int, any) {
		code, answer := g.do(g.client(), "GET", path, "", append(bearer(token), "Impersonate-User", "system:node:"+node)...)
		return code, answer["message"]
	}
	for _, c := range []struct {
		node, path string
		want       int
	}{
		{"n1", namespace + "/pods", 200},
		{"n1", namespace + "/pods/p", 403},
		{"n1", namespace + "/services", 403},
		{"n2", namespace + "/pods", 403},
	} {
		if code, message := as(c.node, c.path); code != c.want {
			t.Errorf("%s as %s: %d %v", c.path, c.node, code, message)
		}
	}
	g.admin("DELETE", rbac+"/clusterrolebindings/agent", "")
	if code, message := as("n1", namespace+"/pods"); code != 403 {
		t.Errorf("after the binding was deleted: %d %v", code, message)
	}
}
