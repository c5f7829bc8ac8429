package clientgo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// widgetResource is what defineWidgets defines.
var widgetResource = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

// TestDiscoveryFollowsDefinitions reads aggregated discovery, and OpenAPI v2 as protobuf, with
// client-go's own clients.
func TestDiscoveryFollowsDefinitions(t *testing.T) {
	s := harness.Start(t)
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a discovery client for config and client: %v", err)
	}
	expect := func(when string, served bool) {
		t.Helper()
		groups, resources, failed, err := client.GroupsAndMaybeResources()
		if err != nil || len(failed) > 0 || resources == nil {
			t.Fatalf("%s: %v, %v; aggregated: %t", when, err, failed, resources != nil)
		}
		found := false
		for gv, list := range resources {
			for _, r := range list.APIResources {
				found = found || (r.Name == widgetResource.Resource && gv == widgetResource.GroupVersion())
			}
		}
		known := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == widgetResource.Group })
		if found != served || known != served {
			t.Errorf("%s: the resource is there: %t, its group: %t, want %t", when, found, known, served)
		}
		doc, err := client.OpenAPISchema()
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		described := false
		for _, p := range doc.GetPaths().GetPath() {
			described = described ||
				p.GetName() == fmt.Sprintf("/apis/%s/%s/%s",
					widgetResource.Group, widgetResource.Version, widgetResource.Resource)
		}
		if described != served || len(doc.GetDefinitions().GetAdditionalProperties()) < 400 {
			t.Errorf("%s: OpenAPI v2 has the resource: %t, want %t; %d definitions",
				when, described, served, len(doc.GetDefinitions().GetAdditionalProperties()))
		}
	}
	expect("at first", false)
	defineWidgets(t, web, s.URL)
	expect("defined", true)
	remove(t.Context(), t, web,
		s.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+widgetResource.GroupResource().String())
	harness.Eventually(t, "the definition is deleted", func() bool {
		resources, err := client.ServerResourcesForGroupVersion(widgetResource.GroupVersion().String())
		return err != nil && resources == nil
	})
	expect("deleted", false)
}

func remove(ctx context.Context, t *testing.T, web *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("do web: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("DELETE %s: %s", url, resp.Status)
	}
}
