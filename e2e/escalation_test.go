package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// The texts are upstream's: pkg/registry/rbac/validation and policybased.
func TestNobodyGrantsWhatHeDoesNotHave(t *testing.T) {
	t.Parallel()
	s, as := launchWithUsers(t, gapless.Config{})
	admin, jane := s.caller(t, http2), as("jane")
	admin.grant("", "writer",
		`[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["create","update","patch","get"]},
		{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]},{"nonResourceURLs":["/x/*"],"verbs":["get"]}]`,
		users("jane"))
	role := func(kind, rules string) string {
		return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":"r"},"rules":%s}`,
			kind, rules)
	}
	const held = `[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"],"resourceNames":["a"]},{"apiGroups":[""],` +
		`"resources":["configmaps"],"verbs":["list"]}]`
	const more = `[{"apiGroups":[""],"resources":["secrets","configmaps"],"verbs":["get","delete"]}]`
	const missing = ` is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}
{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}`
	who := `user "jane" (groups=["system:authenticated"])`
	const inShop = rbacPath + "/namespaces/default"

	jane.must(http.StatusCreated, http.MethodPost, inShop+"/roles", role("Role", held))
	jane.refused(`roles.rbac.authorization.k8s.io "r2" is forbidden: `+who+missing, http.MethodPost, inShop+"/roles",
		strings.Replace(role("Role", more), `"name":"r"`, `"name":"r2"`, 1))
	jane.refused(`clusterroles.rbac.authorization.k8s.io "r" is forbidden: `+who+missing, http.MethodPost,
		rbacPath+"/clusterroles", role("ClusterRole", more))
	jane.refused(`roles.rbac.authorization.k8s.io "r" is forbidden: `+who+missing, http.MethodPut, inShop+"/roles/r",
		role("Role", more))
	jane.refused(`roles.rbac.authorization.k8s.io "r" is forbidden: `+who+missing, http.MethodPatch, inShop+"/roles/r",
		`{"rules":`+more+`}`,
		"Content-Type: application/merge-patch+json")
	jane.refused(`roles.rbac.authorization.k8s.io "r" is forbidden: `+who+missing, http.MethodPatch,
		inShop+"/roles/r?fieldManager=m&force=true", role("Role", more),
		"Content-Type: application/apply-patch+yaml")
	jane.refused(
		`clusterroles.rbac.authorization.k8s.io "r" is forbidden: `+who+
			` is attempting to grant RBAC permissions not currently held:
{NonResourceURLs:["/y"], Verbs:["get"]}`, http.MethodPost, rbacPath+"/clusterroles",
		role("ClusterRole", `[{"nonResourceURLs":["/x/y","/y"],"verbs":["get"]}]`))
	jane.refused(
		`clusterroles.rbac.authorization.k8s.io "r" is forbidden: must have cluster-admin privileges to use the aggregationRule`,
		http.MethodPost, rbacPath+"/clusterroles",
		`{"metadata":{"name":"r"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`)
	// Only what a garbage collector writes may change beside rights that are not held.
	admin.must(http.StatusOK, http.MethodPut, inShop+"/roles/r", role("Role", more))
	jane.must(http.StatusOK, http.MethodPatch, inShop+"/roles/r", `{"metadata":{"finalizers":["example.org/x"]}}`,
		"Content-Type: application/merge-patch+json")
	jane.refused(`roles.rbac.authorization.k8s.io "r" is forbidden: `+who+missing, http.MethodPatch, inShop+"/roles/r",
		`{"metadata":{"labels":{"a":"b"}}}`,
		"Content-Type: application/merge-patch+json")

	bind := func(kind, name string) string {
		return fmt.Sprintf(
			`{"metadata":{"name":"b"},"subjects":%s,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q}}`,
			users("joe"), kind, name)
	}
	jane.refused(`rolebindings.rbac.authorization.k8s.io "b" is forbidden: `+who+missing, http.MethodPost, inShop+"/rolebindings",
		bind("Role", "r"))
	if got := jane.must(http.StatusNotFound, http.MethodPost, inShop+"/rolebindings",
		bind("Role", "none"))["message"]; got != `rolebindings.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("a binding to nothing: %v", got)
	}
	jane.refused(
		`clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: `+who+
			` is attempting to grant RBAC permissions not currently held:
{APIGroups:["*"], Resources:["*"], Verbs:["*"]}
{NonResourceURLs:["*"], Verbs:["*"]}`, http.MethodPost, rbacPath+"/clusterrolebindings", bind("ClusterRole", "cluster-admin"))
	jane.must(http.StatusCreated, http.MethodPost, inShop+"/rolebindings", bind("ClusterRole", "writer"))

	// The verbs bind and escalate.
	admin.grant("default", "may",
		`[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["bind"],"resourceNames":["r"]},
		{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["escalate"]}]`, users("jane"))
	jane.must(http.StatusCreated, http.MethodPost, inShop+"/rolebindings",
		strings.Replace(bind("Role", "r"), `"name":"b"`, `"name":"b2"`, 1))
	jane.must(http.StatusOK, http.MethodPatch, inShop+"/roles/r", `{"metadata":{"labels":{"a":"b"}}}`,
		"Content-Type: application/merge-patch+json")
	jane.must(http.StatusForbidden, http.MethodPost, rbacPath+"/clusterroles", role("ClusterRole", more)) // only in the namespace
}

func TestSignersAreAuthorized(t *testing.T) {
	t.Parallel()
	s, as := launchWithUsers(t, gapless.Config{})
	admin, jane := s.caller(t, http2), as("jane")
	admin.grant("", "signing",
		`[{"apiGroups":["certificates.k8s.io"],"resources":["certificatesigningrequests","certificatesigningrequests/approval","certificatesigningrequests/status"],"verbs":["*"]},
		{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"verbs":["approve"],"resourceNames":["example.org/*"]}]`,
		users("jane"))
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	request := func(name, signer string, groups ...string) string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatalf("generate a key: %v", err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: "joe", Organization: groups}}, key)
		if err != nil {
			t.Fatalf("create certificate request: %v", err)
		}
		text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"request":%q,"signerName":%q,"usages":["client auth"]}}`,
			name, text, signer)
	}
	const approval = `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"x","message":"y"}]}}`
	for name, signer := range map[string]string{"a": "example.org/mine", "b": "example.com/other", "d": "example.org/mine"} {
		jane.must(http.StatusCreated, http.MethodPost, path, request(name, signer))
	}
	jane.must(http.StatusOK, http.MethodPatch, path+"/a/approval", approval, "Content-Type: application/merge-patch+json")
	jane.refused(
		`certificatesigningrequests.certificates.k8s.io "b" is forbidden: user not permitted to approve requests with `+
			`signerName "example.com/other"`,
		http.MethodPatch, path+"/b/approval", approval, "Content-Type: application/merge-patch+json")
	jane.refused(
		`certificatesigningrequests.certificates.k8s.io "d" is forbidden: user not permitted to sign requests with `+
			`signerName "example.org/mine"`,
		http.MethodPatch, path+"/d/status",
		`{"status":{"conditions":[{"type":"Failed","status":"True","reason":"x","message":"y"}]}}`,
		"Content-Type: application/merge-patch+json")
	// Not even the administrator asks for a certificate of the group that may do everything.
	admin.refused(
		`certificatesigningrequests.certificates.k8s.io "c" is forbidden: use of kubernetes.io/kube-apiserver-client signer `+
			`with system:masters group is not allowed`,
		http.MethodPost, path, request("c", "kubernetes.io/kube-apiserver-client", "system:masters"))
}
