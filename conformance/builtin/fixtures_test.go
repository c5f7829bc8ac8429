package builtin_test

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/builtin"
	"github.com/gapless-io/gapless/internal/kinds"
)

// The random objects of which the table has the findings.
const (
	defaultSeed    = 1
	defaultObjects = 20
)

var (
	seed = flag.Int64("seed",
		defaultSeed, "of the random objects; with another one, new findings are printed and are no failures")
	objects = flag.Int("objects", defaultObjects, "random objects of each kind; as -seed")
)

// withoutFixture are the kinds that k8s.io/api has no fixture of.
var withoutFixture = map[string]string{
	"CustomResourceDefinition": "it is in k8s.io/apiextensions-apiserver, which has none",
	"APIService":               "it is in k8s.io/kube-aggregator, which has none",
}

// fixture returns upstream's round-trip fixture of a kind, in which every field is set;
// nil if there is none.
func (s suite) fixture(t *testing.T, r *kinds.Resource) map[string]any {
	t.Helper()
	group := r.Group
	if group == "" {
		group = "core"
	}
	text, err := os.ReadFile(filepath.Join(s.api, "testdata", "HEAD", group+"."+r.Version+"."+r.Kind+".json"))
	reason := withoutFixture[builtin.KindOf(r)]
	if errors.Is(err, fs.ErrNotExist) && reason != "" {
		return nil
	}
	if err != nil || reason != "" {
		t.Fatalf("the fixture of %s: %v (%s)", r.Kind, err, reason)
	}
	return object(t, text)
}

// apiModule returns the directory of k8s.io/api in the module cache.
func apiModule(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find k8s.io/api: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// fixtures decodes the fixture of a kind, and that without each of its members, and
// creates the manifest with each of the fixture's members that it lacks.
func (s suite) fixtures(t *testing.T, g *builtin.Gapless, m builtin.Manifest) {
	t.Helper()
	from := s.fixture(t, m.Target.Resource)
	if from == nil {
		return
	}
	of := builtin.Finding{Kind: builtin.KindOf(m.Target.Resource), Write: builtin.Decode}
	cases := []builtin.Case{{What: "the fixture", Body: body(t, from)}}
	for _, part := range parts(from) {
		cases = append(cases, builtin.Mutate(part, builtin.Removals, inTemplate)...)
	}
	for _, c := range cases {
		s.report.judge(t, of, c, s.upstream.Decode(m.Target, c.Body), g.Decode(m.Target, c.Body))
	}
	of.Write = builtin.Create
	skip := func(path string) bool {
		return generated(path) || path == "metadata.managedFields" || inTemplate(path) && of.Kind != "Deployment"
	}
	for _, c := range builtin.Graft(object(t, m.Body), from, skip) {
		s.report.judge(t, of, c, s.upstream.Create(t.Context(), m.Target, c.Body), g.Create(t.Context(), m.Target, c.Body))
	}
}

// inTemplate reports whether a path is in the spec of a pod in a template. The kinds with
// templates have it in common, so that it is enough to look at it in one of them.
func inTemplate(path string) bool {
	return strings.HasPrefix(path, "template.spec.") || strings.Contains(path, ".template.spec.")
}

// parts returns objects with one member each of the spec, the status and so on of an
// object, for the time it takes to decode the whole.
func parts(whole map[string]any) []map[string]any {
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		value := whole[name]
		members, is := value.(map[string]any)
		if name == "kind" || name == "apiVersion" || name == "metadata" {
			continue
		}
		one := func(value any) {
			all = append(all, map[string]any{"kind": whole["kind"], "apiVersion": whole["apiVersion"], name: value})
		}
		if !is {
			one(value)
		}
		for _, member := range slices.Sorted(maps.Keys(members)) {
			one(map[string]any{member: members[member]})
		}
	}
	return all
}

// random decodes and creates random objects.
func (s suite) random(t *testing.T, g *builtin.Gapless, to builtin.Target) {
	t.Helper()
	cases, err := s.upstream.Random(to, *seed, *objects)
	if err != nil {
		t.Fatalf("random upstream: %v", err)
	}
	kind := builtin.KindOf(to.Resource)
	for _, c := range cases {
		s.report.judge(t, builtin.Finding{Kind: kind, Write: builtin.Decode}, c, s.upstream.Decode(to, c.Body),
			g.Decode(to, c.Body))
		s.report.judge(t, builtin.Finding{Kind: kind, Write: builtin.Random}, c,
			s.upstream.Create(t.Context(), to, c.Body), g.Create(t.Context(), to, c.Body))
	}
}
