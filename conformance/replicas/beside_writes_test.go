package replicas_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/kinds"
)

// slot is a place for an object and its twin. It begins with a manifest.
type slot struct {
	views    []*kinds.Resource // the versions in which its resource is served
	name     string
	manifest map[string]any
	others   []map[string]any // further manifests of the kind
	// mixed and plain are the object and its twin as they were read last, by apiVersion; nil if they are not there.
	mixed, plain map[string]map[string]any
}

// has reports whether the object was there when it was read last.
func (s *slot) has() bool { return s.mixed[s.views[0].APIVersion()] != nil }

// key is the object's key in the store.
func (s *slot) key() string {
	home := s.views[0].Home()
	if home.Namespaced {
		return home.GR().String() + "/mixed/" + s.name
	}
	return home.GR().String() + "/" + s.name
}

// fixed are the kinds of which only metadata changes after their creation: what they say would take effect on other
// writes.
var fixed = []string{
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
	"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
}

// slotsOf makes a slot of each manifest in conformance/builtin, and of those given.
func slotsOf(t *testing.T, catalog *kinds.Catalog, further ...string) []*slot {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(), "conformance/builtin/testdata/manifests/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find the manifests: %v", err)
	}
	docs := slices.Clone(further)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("read the manifests: %v", err)
		}
		docs = append(docs, strings.Split(string(text), "\n---\n")...)
	}
	views := map[kinds.GroupResource][]*kinds.Resource{}
	for _, r := range catalog.Resources() {
		if r.Home().StorageVersion != "" {
			views[r.Home().GR()] = append(views[r.Home().GR()], r)
		}
	}
	var all []*slot
	byKind := map[string][]map[string]any{}
	for i, doc := range docs {
		body, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			t.Fatalf("read a manifest: %v", err)
		}
		o, err := tree(body)
		if err != nil {
			t.Fatalf("read a manifest: %v", err)
		}
		r := resourceOf(catalog, o)
		if r == nil || r.IsDefinition() || o["metadata"].(map[string]any)["name"] == nil || needsAddress(o) {
			continue
		}
		s := &slot{
			views: views[r.Home().GR()], manifest: o, mixed: map[string]map[string]any{}, plain: map[string]map[string]any{},
		}
		s.prepare(r, i)
		kind := r.APIVersion() + r.Kind
		byKind[kind] = append(byKind[kind], o)
		all = append(all, s)
	}
	for gr := range views {
		written := slices.ContainsFunc(all, func(s *slot) bool { return s.views[0].Home().GR() == gr })
		if !written && gr.Resource != "customresourcedefinitions" {
			t.Errorf("no manifest of %s has a name: the random writes leave it out", gr)
		}
	}
	for _, s := range all {
		s.others = byKind[fmt.Sprint(s.manifest["apiVersion"], s.manifest["kind"])]
	}
	return all
}

// resourceOf is the resource of a manifest; nil if it is not stored.
func resourceOf(catalog *kinds.Catalog, o map[string]any) *kinds.Resource {
	for _, r := range catalog.Resources() {
		if r.APIVersion() == o["apiVersion"] && r.Kind == o["kind"] && r.Home().StorageVersion != "" {
			return r
		}
	}
	return nil
}

// needsAddress reports whether an object gets addresses that its twin cannot have: services_test.go has those.
func needsAddress(o map[string]any) bool {
	spec, _ := o["spec"].(map[string]any)
	return o["kind"] == "Service" && spec["clusterIP"] != "None" && spec["type"] != "ExternalName"
}

// prepare gives the manifest a name that no other has, so that the twin's is as long, and takes away its effects on
// other objects.
func (s *slot) prepare(r *kinds.Resource, i int) {
	metadata := s.manifest["metadata"].(map[string]any)
	s.name = fmt.Sprintf("%s-%d", metadata["name"], i)
	switch {
	case r.Kind == "IPAddress":
		s.name = fmt.Sprintf("10.77.1.%d", i%250)
	case !r.Namespaced:
		s.name += "-mixed"
	default:
		metadata["namespace"] = "mixed"
	}
	metadata["name"] = s.name
	if annotations, is := metadata["annotations"].(map[string]any); is && r.Kind == "Pod" {
		// Kube-apiserver makes fields of them: docs/replicas.md.
		maps.DeleteFunc(annotations, func(name string, _ any) bool {
			return strings.HasPrefix(name, "container.apparmor.security.beta.kubernetes.io/")
		})
	}
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	for _, name := range []string{"involvedObject", "regarding"} { // of an Event: it is in the same namespace
		if about, is := s.manifest[name].(map[string]any); is {
			about["namespace"] = "mixed"
		}
	}
	labels["slot"], metadata["labels"] = fmt.Sprintf("mixed-%d", i), labels
	nothing := map[string]any{"matchLabels": map[string]any{"never": "there"}}
	webhooks, _ := s.manifest["webhooks"].([]any)
	for _, w := range webhooks {
		w.(map[string]any)["objectSelector"] = nothing
	}
	if spec, is := s.manifest["spec"].(map[string]any); is && slices.Contains(fixed, r.Kind) {
		for _, name := range []string{"matchConstraints", "matchResources"} {
			if at, is := spec[name].(map[string]any); is {
				at["objectSelector"] = nothing
			}
		}
	}
}

// write is a random write, before it is addressed to one of the twins.
type write struct {
	what                string
	view                *kinds.Resource
	method, contentType string
	path                string
	query               url.Values
	// body makes the body from the object that is there, which it may change. It chooses the same for twins.
	body func(own map[string]any) any
}

// request is the request for the object, or for its twin.
func (w write) request(s *slot, twin bool) request {
	own := s.mixed[w.view.APIVersion()]
	if twin {
		own = s.plain[w.view.APIVersion()]
	}
	req := request{method: w.method, contentType: w.contentType, path: w.path}
	if len(w.query) > 0 {
		req.path += "?" + w.query.Encode()
	}
	if w.body != nil {
		// A copy, in the words of the one that is not the twin.
		var copied map[string]any
		if own != nil {
			copied, _ = tree([]byte(fromTwin.Replace(jsonOf(own)))) // it was encoded just now
		}
		req.body = []byte(jsonOf(w.body(copied)))
	}
	if twin {
		req.path, req.body = toTwin.Replace(req.path), []byte(toTwin.Replace(string(req.body)))
	}
	return req
}

// generator makes writes.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// next is a random write to a slot.
func (g generator) next(s *slot) write {
	view := s.views[g.IntN(len(s.views))]
	w := write{view: view, query: url.Values{}, path: pathOf(view, "mixed", s.name), contentType: "application/json"}
	if g.IntN(2) == 0 {
		w.query.Set("fieldManager", g.one("first", "second"))
	}
	if g.IntN(20) == 0 {
		w.query.Set("dryRun", "All")
	}
	if !s.has() && g.IntN(10) > 0 {
		g.create(s, &w)
	} else {
		g.change(s, &w)
	}
	return w
}

// manifestOf is the manifest in the version of a write, changed at random.
func (g generator) manifestOf(s *slot, view *kinds.Resource) map[string]any {
	o, _ := tree([]byte(jsonOf(s.manifest))) // it was encoded just now
	o["apiVersion"] = view.APIVersion()
	if g.IntN(2) == 0 {
		g.mutate(s, o)
	}
	return o
}

// create makes a write one that creates the object.
func (g generator) create(s *slot, w *write) {
	if own := s.manifest["apiVersion"]; w.view.APIVersion() != own && !w.view.Custom {
		// Another version has other members: it is the version of the manifest that creates.
		i := slices.IndexFunc(s.views, func(r *kinds.Resource) bool { return r.APIVersion() == own })
		w.view = s.views[i]
		w.path = pathOf(w.view, "mixed", s.name)
	}
	o := g.manifestOf(s, w.view)
	switch g.IntN(4) {
	case 0:
		g.apply(w, o)
	case 1:
		w.what, w.method = "update that creates", http.MethodPut
	default:
		w.what, w.method, w.path = "create", http.MethodPost, pathOf(w.view, "mixed", "")
	}
	w.body = func(map[string]any) any { return o }
}

func (g generator) apply(w *write, o map[string]any) {
	w.what, w.method, w.contentType = "apply", http.MethodPatch, "application/apply-patch+yaml"
	w.query.Set("fieldManager", g.one("first", "second", "third"))
	if g.IntN(2) == 0 {
		w.query.Set("force", "true")
	}
	delete(o, "status")
	w.body = func(map[string]any) any { return o }
}

// change makes a write one that changes the object, which may not be there.
func (g generator) change(s *slot, w *write) {
	switch n := g.IntN(100); {
	case n < 25:
		g.update(s, w)
	case n < 50:
		g.patch(s, w)
	case n < 62:
		if o := g.manifestOf(s, w.view); w.view.APIVersion() == s.manifest["apiVersion"] || w.view.Custom {
			g.apply(w, o)
			return
		}
		g.patch(s, w)
	case n < 74 && w.view.HasStatus:
		g.status(s, w)
	case n < 78 && w.view.Scale != nil:
		w.what, w.method, w.path, w.contentType = "scale", http.MethodPatch, w.path+"/scale", "application/merge-patch+json"
		replicas := g.IntN(4)
		w.body = func(map[string]any) any { return map[string]any{"spec": map[string]any{"replicas": replicas}} }
	case n < 84:
		g.finalizers(w)
	case n < 96 || !slices.Contains(w.view.Verbs, "deletecollection"):
		g.deletion(w)
	default:
		g.deletion(w)
		w.what, w.path = "deletecollection", pathOf(w.view, "mixed", "")
		w.query.Set("labelSelector", "slot="+s.manifest["metadata"].(map[string]any)["labels"].(map[string]any)["slot"].(string))
		w.body = nil
	}
}

// update writes the whole object, with its resourceVersion, without, or with an old one.
func (g generator) update(s *slot, w *write) {
	w.what, w.method = "update", http.MethodPut
	version, seed := g.one("own", "own", "none", "old"), g.Uint64()
	view := w.view
	w.body = func(own map[string]any) any {
		if own == nil {
			own, _ = tree([]byte(jsonOf(s.manifest))) // it was encoded just now
		}
		own["apiVersion"] = view.APIVersion()
		generator{rand.New(rand.NewPCG(seed, 0))}.mutate(s, own)
		metadata := own["metadata"].(map[string]any)
		switch version {
		case "none":
			delete(metadata, "resourceVersion")
		case "old":
			metadata["resourceVersion"] = "7"
		}
		return own
	}
}

// patch writes a part of the object, in one of three languages.
func (g generator) patch(s *slot, w *write) {
	w.what, w.method = "patch", http.MethodPatch
	languages := []string{"merge", "json"}
	if !w.view.Custom {
		languages = append(languages, "strategic")
	}
	language := g.one(languages...)
	value := strconv.Itoa(g.IntN(5))
	switch {
	case language == "json":
		w.contentType = "application/json-patch+json"
		label := g.one("a", "b")
		w.body = func(map[string]any) any {
			return []any{map[string]any{"op": "add", "path": "/metadata/labels/" + label, "value": value}}
		}
		return
	default:
		w.contentType = "application/" + language + "-patch+json"
		if language == "strategic" {
			w.contentType = "application/strategic-merge-patch+json"
		}
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": value, "gone": nil}}}
	if g.IntN(3) > 0 && w.view.APIVersion() == s.manifest["apiVersion"] && !slices.Contains(fixed, w.view.Kind) {
		from := s.others[g.IntN(len(s.others))]
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if content(name) && g.IntN(2) == 0 {
				patch[name] = from[name]
			}
		}
	}
	w.body = func(map[string]any) any { return patch }
}

// status writes the status of the manifest, or that of another one.
func (g generator) status(s *slot, w *write) {
	w.what, w.path = "status", w.path+"/status"
	status := s.others[g.IntN(len(s.others))]["status"]
	if g.IntN(2) == 0 || !s.has() {
		w.method, w.contentType = http.MethodPatch, "application/merge-patch+json"
		w.body = func(map[string]any) any { return map[string]any{"status": status} }
		return
	}
	w.method = http.MethodPut
	view := w.view
	w.body = func(own map[string]any) any {
		own["apiVersion"], own["status"] = view.APIVersion(), status
		return own
	}
}

func (g generator) finalizers(w *write) {
	w.what, w.method, w.contentType = "finalizers", http.MethodPatch, "application/merge-patch+json"
	var all []any
	for _, name := range []string{"example.org/a", "example.org/b"} {
		if g.IntN(3) == 0 {
			all = append(all, name)
		}
	}
	w.body = func(map[string]any) any { return map[string]any{"metadata": map[string]any{"finalizers": all}} }
}

// deletion deletes the object, under preconditions that hold or do not.
func (g generator) deletion(w *write) {
	w.what, w.method = "delete", http.MethodDelete
	w.query.Del("fieldManager")
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	if policy := g.one("", "", "Background", "Foreground", "Orphan"); policy != "" {
		options["propagationPolicy"] = policy
	}
	if g.IntN(3) == 0 {
		options["gracePeriodSeconds"] = g.IntN(2) * 10
	}
	uid, version := g.one("", "", "own", "another"), g.one("", "", "own", "another")
	if version == "own" {
		// With a policy, upstream may change the finalizers first, and then refuse for the resourceVersion that it has
		// changed itself.
		delete(options, "propagationPolicy")
	}
	others := map[string]string{"uid": "00000000-0000-0000-0000-000000000000", "resourceVersion": "777"}
	w.body = func(own map[string]any) any {
		conditions := map[string]any{}
		if own != nil {
			metadata := own["metadata"].(map[string]any)
			for name, choice := range map[string]string{"uid": uid, "resourceVersion": version} {
				switch choice {
				case "own":
					conditions[name] = metadata[name]
				case "another":
					conditions[name] = others[name]
				}
			}
		}
		if len(conditions) > 0 {
			options["preconditions"] = conditions
		}
		return options
	}
}

// content reports whether a member of an object is what the kind has.
func content(name string) bool {
	return !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name)
}

// mutate changes one thing: mostly a value of the content, or a label.
func (g generator) mutate(s *slot, o map[string]any) {
	metadata := o["metadata"].(map[string]any)
	kind, _ := o["kind"].(string)
	if g.IntN(3) == 0 || slices.Contains(fixed, kind) {
		notes, _ := metadata["annotations"].(map[string]any)
		if notes == nil {
			notes = map[string]any{}
		}
		notes["changed"], metadata["annotations"] = strconv.Itoa(g.IntN(10)), notes
		return
	}
	var leaves []func()
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if content(name) {
			leaves = append(leaves, g.leaves(o[name], func(v any) { o[name] = v })...)
		}
	}
	if from := s.others[g.IntN(len(s.others))]; from["apiVersion"] == o["apiVersion"] {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if content(name) {
				leaves = append(leaves, func() { o[name] = from[name] })
			}
		}
	}
	if len(leaves) > 0 {
		leaves[g.IntN(len(leaves))]()
	}
}

// leaves are the changes of what is below a value: another number, bool or text, one item less or a member less.
func (g generator) leaves(v any, set func(any)) []func() {
	var all []func()
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, func() { delete(v, name) })
			all = append(all, g.leaves(v[name], func(other any) { v[name] = other })...)
		}
	case []any:
		if len(v) > 0 {
			all = append(all, func() { set(v[1:]) })
		}
		for i := range v {
			all = append(all, g.leaves(v[i], func(other any) { v[i] = other })...)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			all = append(all, func() { set(n + 1) })
		}
	case bool:
		all = append(all, func() { set(!v) })
	case string:
		all = append(all, func() { set(v + "x") })
	}
	return all
}
