package fabric8

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const sites = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"sites.example.org"},
	"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"sites","singular":"site","kind":"Site","listKind":"SiteList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
	"spec":{"type":"object","properties":{"of":{"type":"string"}}},"status":{"type":"object","properties":{"of":{"type":"string"}}}}}}}]}}`

func TestJavaOperatorSDKOperates(t *testing.T) {
	classPath := build(t, "operator")
	u := serve(t)
	const collection = "/apis/example.org/v1/namespaces/default/sites"
	u.must(http.StatusCreated, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", sites)
	harness.Eventually(t, "sites are served", func() bool {
		code, _ := u.do(http.MethodGet, collection, "")
		return code == http.StatusOK
	})
	p := start(t, classPath, "Operating", []string{u.admin.WriteKubeconfig(t, u.proxy.URL())}, nil)
	defer p.Stop() // before its context ends
	(&harness.Operator{
		Owners: collection, Children: configMaps, Notes: configMaps,
		Owner: func(name, value string) string {
			return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Site","metadata":{"name":%q},"spec":{"of":%q}}`,
				name, value)
		},
		Shows:  func(value string) string { return fmt.Sprintf(`"data":{"of":%q}`, value) },
		Status: func(value string) string { return fmt.Sprintf(`"status":{"of":%q}`, value) },
	}).Play(t, u.Server, u.proxy)
}

func TestFabric8AppliesOnTheServer(t *testing.T) {
	classPath := build(t, "v7")
	u := serve(t)
	p := start(t, classPath, "Applying", []string{u.admin.kubeconfig}, nil)
	harness.Eventually(t, "it has ended", func() bool {
		return len(p.Output("CHECKED")) > 0 || p.Ended()
	})
	p.Stop()
	if held := len(p.Output("HOLDS")); held != 16 || len(p.Output("CHECKED")) == 0 {
		t.Errorf("%d checks hold, want 16 and the end", held)
	}
}
