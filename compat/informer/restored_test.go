package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/informer"
)

// TestRestoredReferenceServerIsDetected: upstream's API server restarts over an
// older copy of etcd's directory, or over an empty one. It says nothing about it: a watch
// from a revision that it does not have is silent, and one from a revision that it has
// reached again brings what came since.
func TestRestoredReferenceServerIsDetected(t *testing.T) {
	for _, back := range []string{"empty", "quiet", "busy"} {
		t.Run(back, func(t *testing.T) { restored(t, back) })
	}
}

func restored(t *testing.T, back string) {
	r := startReference(t)
	for n := range 5 {
		r.send(t, "POST", definitionsPath, definition(fmt.Sprint("kept", n)))
	}
	data, copied := filepath.Join(r.dir, "etcd"), filepath.Join(t.TempDir(), "copy")
	r.back.stop(t)
	if back != "empty" {
		if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
			t.Fatalf("copy the directory: %v", err)
		}
	}
	r.swap(r.start(t))
	var all incidents
	i := run(t, informer.New(informer.For[*apiextensionsv1.CustomResourceDefinition](
		&rest.Config{Host: r.front.URL}, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
		informer.OnError(func(in informer.Incident) { t.Logf("incident: %s", in); all.add(in) })))
	label := func(name, value string) {
		r.send(t, "PATCH", definitionsPath+"/"+name+"s.t.example.com", `{"metadata":{"labels":{"a":"`+value+`"}}}`)
	}
	label("kept1", "lost")
	r.send(t, "POST", definitionsPath, definition("lost"))
	r.send(t, "DELETE", definitionsPath+"/kept2s.t.example.com", "")
	label("kept3", "lost")
	harness.Eventually(t, "the cache is the server's state", func() bool { return maps.Equal(r.state(t), stateOf(i)) })
	r.disconnect(func() {
		r.back.stop(t)
		if err := os.RemoveAll(data); err != nil {
			t.Fatalf("remove a directory: %v", err)
		}
		if back != "empty" {
			if err := os.Rename(copied, data); err != nil {
				t.Fatalf("rename a file: %v", err)
			}
		}
		r.swap(r.start(t))
		if back == "empty" {
			return
		}
		label("kept1", "restored")
		if back == "busy" {
			for n := range 40 {
				label("kept4", fmt.Sprint("v", n))
			}
		}
	})
	harness.Eventually(t, "the cache is the restored server's state", func() bool { return maps.Equal(r.state(t), stateOf(i)) })
	if all.count(informer.WentBack) == 0 {
		t.Error("no incident for the older history")
	}
}

// swap makes another process the one behind the proxy.
func (r *reference) swap(next *backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = next
}

// state is what the server has, past the proxy.
func (r *reference) state(t *testing.T) map[string]string {
	t.Helper()
	r.mu.Lock()
	b := r.back
	r.mu.Unlock()
	c, err := client.New(&rest.Config{
		Host: b.URL, BearerToken: b.Token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(b.CA)},
	})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer c.CloseIdle()
	body, err := c.Get(context.WithoutCancel(t.Context()), definitionsPath, "")
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	all := map[string]string{}
	for _, d := range list.Items {
		all[d.Name] = d.ResourceVersion + " " + d.Labels["a"]
	}
	return all
}

func stateOf(i *definitionInformer) map[string]string {
	all := map[string]string{}
	for key, d := range i.All() {
		all[key.Name] = d.ResourceVersion + " " + d.Labels["a"]
	}
	return all
}
