package gapless_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// storing is a server behind with objects of two resources: things, which can be deleted together, and parts, which
// cannot.
type storing struct {
	// mu guards what follows.
	mu         sync.Mutex
	objects    map[string][]string // names, by the path of their list
	finalizers map[string]string   // by the path of an object
	failing    bool                // it answers 503 to deletions
	deletions  []string
}

// ServeHTTP implements http.Handler.
func (c *storing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	switch {
	case path == "/apis":
		w.Header().Set("Content-Type", aggregatedForm)
		resource := func(name, verbs string) string {
			return fmt.Sprintf(`{"resource":%q,"scope":"Namespaced","responseKind":{"group":"behind.example.com","version":"v1",
				"kind":"K"},"verbs":[%s]}`, name, verbs)
		}
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":
			"behind.example.com"},"versions":[{"version":"v1","resources":[%s,%s,%s]}]}]}`,
			resource("parts", `"get","list","delete"`), resource("things", `"list","delete","deletecollection"`),
			resource("views", `"list"`))
	case path == behindVersion:
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"behind.example.com/v1","resources":[]}`)
	case r.Method == http.MethodDelete:
		c.delete(w, r)
	case strings.HasPrefix(path, behindVersion+"/namespaces/"):
		after, list := r.URL.Query().Get("continue"), map[string]any{"metadata": map[string]any{}, "items": []any{}}
		all := slices.Sorted(slices.Values(c.objects[path]))
		all = slices.DeleteFunc(all, func(name string) bool { return name <= after })
		if len(all) > 0 { // a page has one object
			meta := map[string]any{"name": all[0]}
			if f := c.finalizers[path+"/"+all[0]]; f != "" {
				meta["finalizers"] = []string{f}
			}
			list["items"] = []any{map[string]any{"metadata": meta}}
		}
		if len(all) > 1 {
			list["metadata"] = map[string]any{"continue": all[0]}
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		http.NotFound(w, r)
	}
}

func (c *storing) delete(w http.ResponseWriter, r *http.Request) {
	var options map[string]any
	_ = json.NewDecoder(r.Body).Decode(&options)
	c.deletions = append(c.deletions, fmt.Sprint(r.URL.Path, " ", options["propagationPolicy"], " ",
		r.Header.Get("X-Remote-User"),
		" ", r.Header["X-Remote-Group"]))
	if c.failing {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	list, one := r.URL.Path, ""
	if strings.Contains(list, "/parts/") {
		list, one, _ = strings.Cut(list, "/parts/")
		list += "/parts"
	}
	c.objects[list] = slices.DeleteFunc(c.objects[list], func(name string) bool {
		return (one == "" || name == one) && c.finalizers[list+"/"+name] == ""
	})
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

// do changes what the server has.
func (c *storing) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// conditions waits until the conditions of a namespace that are true are these.
func (g *rig) conditions(namespace string, want ...string) {
	g.t.Helper()
	var got []string
	defer func() {
		if g.t.Failed() {
			g.t.Logf("the conditions of %s are %q, want %q", namespace, got, want)
		}
	}()
	until(g.t, func() bool {
		got = nil
		_, answer := g.do(g.client(g.own), "GET", "/api/v1/namespaces/"+namespace, "")
		all, _ := at(answer, "status", "conditions").([]any)
		for _, c := range all {
			if at(c, "status") == "True" {
				got = append(got, fmt.Sprint(at(c, "type"), " ", at(c, "reason"), " ", at(c, "message")))
			}
		}
		return slices.Equal(got, want)
	})
}

func (g *rig) gone(path string) {
	g.t.Helper()
	until(g.t, func() bool {
		code, _ := g.do(g.client(g.own), "GET", path, "")
		return code == http.StatusNotFound
	})
}

// TestNamespacesGoWithTheirContentBehind deletes namespaces with objects of an aggregated server: what it has is deleted,
// in the name of this server; what it keeps is in the conditions. While it is away, namespaces stay, without what this
// server has in them.
func TestNamespacesGoWithTheirContentBehind(t *testing.T) {
	g, b := aggregating(t)
	const things, parts = behindVersion + "/namespaces/a/things", behindVersion + "/namespaces/a/parts"
	c := &storing{
		objects:    map[string][]string{things: {"x", "y"}, parts: {"p", "q", "held"}},
		finalizers: map[string]string{parts + "/held": "x.io/a"},
	}
	b.other.Store(c)
	b.register(g)
	until(t, func() bool { // it is discovered
		code, answer := g.do(g.client(g.own), "GET", "/apis", "", "Accept", aggregatedForm)
		return code == http.StatusOK && strings.Contains(fmt.Sprint(answer), "things")
	})
	for _, name := range []string{"a", "b", "c"} {
		g.admin("POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
	}
	g.admin("POST", "/api/v1/namespaces/c/configmaps", `{"metadata":{"name":"m"}}`)
	g.admin("DELETE", "/api/v1/namespaces/a", "")
	g.conditions("a", "NamespaceContentRemaining SomeResourcesRemain Some resources are remaining: parts.behind.example.com "+
		"has 1 resource instances", "NamespaceFinalizersRemaining SomeFinalizersRemain Some content in the namespace has "+
		"finalizers remaining: x.io/a in 1 resource instances")
	c.do(func() {
		who := " Background system:apiserver [system:masters]"
		want := []string{parts + "/held" + who, parts + "/p" + who, parts + "/q" + who, things + who}
		if len(c.deletions) < 4 || !slices.Equal(c.deletions[:4], want) {
			t.Errorf("the server behind was asked for\n%s\nwant\n%s", strings.Join(c.deletions, "\n"), strings.Join(want, "\n"))
		}
		clear(c.finalizers)
	})
	g.gone("/api/v1/namespaces/a")

	c.do(func() { c.failing = true })
	g.admin("DELETE", "/api/v1/namespaces/b", "")
	g.conditions("b", "NamespaceDeletionContentFailure ContentDeletionFailed Failed to delete all resource types, 1 remaining: "+
		"the server is currently unable to handle the request")
	c.do(func() { c.failing = false })
	g.gone("/api/v1/namespaces/b")

	const service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.nowhere.example.com"
	g.admin("POST", "/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.nowhere.example.com"},"spec":{
		"group":"nowhere.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"nowhere"}}}`)
	g.admin("DELETE", "/api/v1/namespaces/c", "")
	g.conditions("c", "NamespaceDeletionDiscoveryFailure DiscoveryFailed Discovery failed for some groups, 1 failing: unable to "+
		"retrieve the complete list of server APIs: nowhere.example.com/v1: stale GroupVersion discovery: nowhere.example.com/v1")
	g.gone("/api/v1/namespaces/c/configmaps/m")
	g.admin("DELETE", service, "")
	g.gone("/api/v1/namespaces/c")
}
