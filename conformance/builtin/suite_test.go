package builtin_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/builtin"
	"github.com/gapless-io/gapless/internal/kinds"
	ours "github.com/gapless-io/gapless/internal/kinds/builtin"
)

var (
	update = flag.Bool("update", false, "write the table of findings, and the figures of docs/conformance.md")
	show   = flag.String("show", "", "print an example of each finding whose line contains this")
)

const tableFile = "testdata/differences.txt"

// withoutStrategies says of the kinds that upstream has no strategy for why that is.
var withoutStrategies = map[string]string{
	"Binding":                  "a POST to it changes a pod: it is not stored",
	"LocalSubjectAccessReview": "answered, not stored: upstream has no strategy for it",
	"SelfSubjectAccessReview":  "as LocalSubjectAccessReview",
	"SelfSubjectReview":        "as LocalSubjectAccessReview",
	"SelfSubjectRulesReview":   "as LocalSubjectAccessReview",
	"TokenReview":              "as LocalSubjectAccessReview",
	"SubjectAccessReview":      "as LocalSubjectAccessReview",
}

// TestKindsAgreeWithUpstream writes the manifests, mutations of them and upstream's
// fixtures to upstream's strategies and to this module's registry. What differs must be
// in the table, and everything in the table must differ.
func TestKindsAgreeWithUpstream(t *testing.T) {
	catalog := ours.Catalog()
	manifests, err := builtin.Manifests("testdata/manifests", catalog.Resources())
	if err != nil {
		t.Fatalf("manifests: %v", err)
	}
	kept, err := builtin.Manifests("testdata/kept", catalog.Resources())
	if err != nil {
		t.Fatalf("manifests: %v", err)
	}
	s := suite{upstream: builtin.NewUpstream(), report: newReport(), api: apiModule(t)}
	played := map[string]bool{} // guarded by the mutex of the report
	t.Run("kinds", func(t *testing.T) {
		for _, r := range catalog.Resources() {
			kind := builtin.KindOf(r)
			if reason := withoutStrategies[kind]; reason != "" && !s.upstream.Has(kinds.Target{Resource: r}) {
				t.Logf("%s is not written: %s", kind, reason)
				continue
			}
			s.kinds++
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				s.report.mu.Lock()
				played[kind] = true
				s.report.mu.Unlock()
				of := slices.DeleteFunc(slices.Clone(manifests), func(m builtin.Manifest) bool { return m.Target.Resource != r })
				if len(of) == 0 {
					t.Fatalf("testdata/manifests has no %s", kind)
				}
				s.play(t, of)
				s.keeps(t, slices.DeleteFunc(slices.Clone(kept), func(m builtin.Manifest) bool { return m.Target.Resource != r }))
			})
		}
	})
	s.settle(t, played)
}

// suite plays the manifests of each kind.
type suite struct {
	upstream builtin.Upstream
	report   *report
	api      string // the directory of k8s.io/api
	kinds    int    // how many are played when none is left out
}

// settle compares what was found with the table.
func (s suite) settle(t *testing.T, played map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	table, err := builtin.ParseTable(string(text))
	if err != nil {
		t.Fatalf("%s: %v", tableFile, err)
	}
	found := s.report.found()
	if *update {
		table = table.With(found, played)
		if err := os.WriteFile(tableFile, []byte(table.String()), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	complain := t.Errorf
	if *seed != defaultSeed || *objects != defaultObjects {
		complain = t.Logf // the table has the findings of other objects
	}
	for _, f := range table.Missing(found) {
		complain("not in %s: %s\n  %s", tableFile, f, s.report.examples[f])
	}
	for _, f := range table.Stale(found, played) {
		complain("in %s, but not found any more: %s", tableFile, f)
	}
	shown := slices.SortedFunc(maps.Keys(s.report.examples), func(a, b builtin.Finding) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, f := range shown {
		if *show != "" && strings.Contains(f.String(), *show) {
			t.Logf("%s\n  %s", f, s.report.examples[f])
		}
	}
	figures := s.report.figures(table)
	t.Logf("\n%s", figures)
	if len(played) == s.kinds && *seed == defaultSeed && *objects == defaultObjects {
		documented(t, figures)
	}
}

// play writes the manifests of one kind.
func (s suite) play(t *testing.T, manifests []builtin.Manifest) {
	t.Helper()
	// Creations find nothing stored; updates find what is stored for them.
	empty, filled := start(t), start(t)
	first := manifests[0]
	first.Target.Subresource = "status"
	if s.upstream.Has(first.Target) && object(t, first.Body)["status"] == nil {
		t.Errorf("the first manifest, %s, has no status", first.Name)
	}
	s.fixtures(t, empty, manifests[0])
	s.random(t, empty, manifests[0].Target)
	for i, m := range manifests {
		if err := s.upstream.Strictly(m.Target, m.Body); err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		first := s.upstream.Create(t.Context(), m.Target, m.Body)
		if first.Object == nil {
			t.Errorf("upstream refuses the manifest %s: %+v %v", m.Name, first.Status, first.Err)
			continue
		}
		s.creates(t, empty, m, first)
		if m.Name == "" {
			continue // it is updated as the others are
		}
		o := stored{target: m.Target, registry: filled, upstream: first, gapless: filled.Store(t.Context(), m.Target, m.Body)}
		if o.gapless.Object == nil {
			continue // a finding of creates
		}
		o.target.Name = m.Name
		s.subresources(t, o, i == 0)
		s.updates(t, o, m) // last, since it stores the status
	}
}

// start returns a registry that runs until the test ends.
func start(t *testing.T) *builtin.Gapless {
	t.Helper()
	g, err := builtin.NewGapless(t.Context())
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("stop the registry: %v", err)
		}
	})
	return g
}

// creates creates a manifest, its defaulted form, and mutations of both.
func (s suite) creates(t *testing.T, g *builtin.Gapless, m builtin.Manifest, first builtin.Verdict) {
	t.Helper()
	r := m.Target.Resource
	skip := func(path string) bool {
		return generated(path) || path == "status" && !r.StatusOnCreate
	}
	seen := map[string]bool{}
	play := func(c builtin.Case) {
		if !seen[c.What] {
			seen[c.What] = true
			c.What = m.Name + ": " + c.What
			s.report.judge(t, builtin.Finding{Kind: builtin.KindOf(r), Write: builtin.Create}, c,
				s.upstream.Create(t.Context(), m.Target, c.Body), g.Create(t.Context(), m.Target, c.Body))
		}
	}
	play(builtin.Case{What: "as it is", Body: m.Body})
	for _, c := range builtin.Mutate(object(t, m.Body), builtin.Full, skip) {
		play(c)
	}
	defaulted := removeGenerated(r, object(t, body(t, first.Object)))
	play(builtin.Case{What: "defaulted", Body: body(t, defaulted)})
	for _, c := range builtin.Mutate(defaulted, builtin.Full, skip) {
		play(c)
	}
}

// keeps updates objects that were stored under older rules, and their status: by a label that
// they did not have, and by mutations of all that they have.
func (s suite) keeps(t *testing.T, manifests []builtin.Manifest) {
	t.Helper()
	g := start(t)
	for _, m := range manifests {
		body := keptBody(t, m)
		if refused := s.upstream.Create(t.Context(), m.Target, m.Body); refused.Object != nil {
			t.Errorf("upstream accepts %s, which is meant to be valid under older rules only", m.Name)
		}
		m.Target.Name = m.Name
		o := stored{
			kept: true, target: m.Target, registry: g,
			upstream: s.upstream.Decode(m.Target, body), gapless: g.Keep(t.Context(), m.Target, body),
		}
		if o.upstream.Object == nil || o.gapless.Object == nil {
			t.Fatalf("%s: %+v, %+v", m.Name, o.upstream, o.gapless)
		}
		skip := func(path string) bool { return generated(path) || path == "metadata.name" || path == "status" }
		s.changes(t, o, append(labelled(t, o), builtin.Mutate(versioned(t, o.upstream.Object), builtin.Brief, skip)...))
		if o.target.Subresource = "status"; s.upstream.Has(o.target) {
			skip := func(path string) bool {
				return generated(path) || path == "metadata.name" || strings.HasPrefix(path, "spec")
			}
			s.changes(t, o, append(labelled(t, o), builtin.Mutate(versioned(t, o.upstream.Object), builtin.Brief, skip)...))
		}
	}
}

// labelled is an object that has got a label.
func labelled(t *testing.T, o stored) []builtin.Case {
	t.Helper()
	changed := versioned(t, o.upstream.Object)
	changed["metadata"].(map[string]any)["labels"] = map[string]any{"new": "label"}
	return []builtin.Case{{What: "with a label", Body: body(t, changed)}}
}

// keptBody is a manifest with what a server sets.
func keptBody(t *testing.T, m builtin.Manifest) []byte {
	t.Helper()
	whole := object(t, m.Body)
	metadata := whole["metadata"].(map[string]any)
	metadata["uid"], metadata["creationTimestamp"] = builtin.FixedUID, "2020-01-02T03:04:05Z"
	return body(t, whole)
}

// stored is an object that both have stored, and the registry of gapless that has it.
type stored struct {
	kept              bool // under older rules
	target            builtin.Target
	registry          *builtin.Gapless
	upstream, gapless builtin.Verdict // of the write that stored it
}

// updates updates the stored form of a manifest by mutations of it, and its status.
func (s suite) updates(t *testing.T, o stored, m builtin.Manifest) {
	t.Helper()
	status := o.target
	status.Subresource = "status"
	if o.target.Resource.IsDefinition() { // upstream's controllers establish it, gapless does it in the write
		established := versioned(t, o.upstream.Object)
		established["status"] = o.gapless.Object["status"]
		o.upstream = s.upstream.Update(t.Context(), status, o.upstream, body(t, established))
	}
	skip := func(path string) bool {
		return generated(path) || path == "metadata.name" || path == "status"
	}
	s.changes(t, o, builtin.Mutate(versioned(t, o.upstream.Object), builtin.Brief, skip))
	if wanted, has := object(t, m.Body)["status"]; has && s.upstream.Has(status) {
		o.target = status
		s.statuses(t, o, wanted)
	}
}

// statuses writes a status to the stored object, and then mutations of it.
func (s suite) statuses(t *testing.T, o stored, status any) {
	t.Helper()
	whole := versioned(t, o.upstream.Object)
	whole["status"] = status
	first := builtin.Case{What: "the manifest's status", Body: body(t, whole)}
	s.changes(t, o, []builtin.Case{first})
	o.upstream = s.upstream.Update(t.Context(), o.target, o.upstream, first.Body)
	o.gapless = o.registry.Change(t.Context(), o.target, o.gapless, first.Body)
	if o.upstream.Object == nil {
		t.Fatalf("upstream refuses the status of the manifest %s: %+v %v", o.target.Name, o.upstream.Status, o.upstream.Err)
	}
	if o.gapless.Object == nil {
		return // a finding
	}
	skip := func(path string) bool {
		return generated(path) || path == "metadata.name" || strings.HasPrefix(path, "spec.")
	}
	s.changes(t, o, builtin.Mutate(versioned(t, o.upstream.Object), builtin.Brief, skip))
}

// changes updates an object, or a part of it, by each of the cases.
func (s suite) changes(t *testing.T, o stored, cases []builtin.Case) {
	t.Helper()
	of := builtin.Finding{Kind: builtin.KindOf(o.target.Resource), Write: builtin.Update}
	if o.target.Subresource != "" {
		of.Write = builtin.Write(o.target.Subresource)
	}
	if o.kept {
		of.Write = builtin.Kept
	}
	for _, c := range cases {
		c.What = o.target.Name + ": " + c.What
		s.report.judge(t, of, c,
			s.upstream.Update(t.Context(), o.target, o.upstream, c.Body),
			o.registry.Update(t.Context(), o.target, o.gapless, c.Body))
	}
}

// generated reports whether a path is not for clients to choose, or chooses the request.
func generated(path string) bool {
	return slices.Contains([]string{
		"kind", "apiVersion", "metadata.namespace", "metadata.generation", "metadata.uid", "metadata.resourceVersion",
		"metadata.creationTimestamp",
	}, path)
}

// removeGenerated removes what the server has put into an object, so that it can be
// created again: a name, and the UID in the labels and the selector of a job.
func removeGenerated(r *kinds.Resource, o map[string]any) map[string]any {
	metadata, _ := o["metadata"].(map[string]any)
	if metadata["generateName"] != nil {
		delete(metadata, "name")
	}
	if r.Kind != "Job" {
		return o
	}
	spec, _ := o["spec"].(map[string]any)
	if spec["manualSelector"] == true {
		return o
	}
	delete(spec, "selector")
	template, _ := spec["template"].(map[string]any)
	for _, of := range []map[string]any{metadata, template["metadata"].(map[string]any)} {
		labels, _ := of["labels"].(map[string]any)
		for _, name := range []string{
			"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
		} {
			delete(labels, name)
		}
	}
	return o
}

// versioned returns a copy of a stored object as a client would send it back.
func versioned(t *testing.T, stored map[string]any) map[string]any {
	t.Helper()
	o := object(t, body(t, stored))
	o["metadata"].(map[string]any)["resourceVersion"] = builtin.StoredVersion
	return o
}

// object returns a JSON object as a tree.
func object(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return o
}

// body returns a tree as JSON.
func body(t *testing.T, o map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return text
}
