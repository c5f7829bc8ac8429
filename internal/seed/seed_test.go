package seed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/seed"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

const (
	definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cron]
            properties:
              cron: {type: string}
              replicas: {type: integer, default: 1}
`
	cronTab = "apiVersion: example.com/v1\nkind: CronTab\nmetadata: {name: nightly, namespace: shop}\nspec: " +
		"{cron: '0 0 * * *'}\n"
	shop       = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}
`
)

func TestWhatOthersNeedComesFirst(t *testing.T) {
	s := start(t)
	dir := write(t, "a/objects.yaml", cronTab+"---\n"+deployment, "b/definition.yml", definition, "c.yaml", shop)
	s.must(dir, 4, 0, 0)
	o := s.find("example.com", "crontabs", "shop", "nightly")
	if o == nil || !strings.Contains(string(o.JSON()), `"replicas":1`) {
		t.Errorf("the custom resource has no defaults: %v", o)
	}
	if d := s.find("apps", "deployments", "shop", "web"); d == nil || !strings.Contains(string(d.JSON()), `"protocol":"TCP"`) {
		t.Errorf("the deployment has no defaults: %v", d)
	}
}

func TestSecondStartWritesNothing(t *testing.T) {
	s := start(t)
	dir := write(t, "all.yaml",
		strings.Join([]string{shop, definition, cronTab, deployment, configMap("shop", "settings", "x")}, "---\n"))
	s.must(dir, 5, 0, 0)
	before := s.revision()
	s.must(dir, 0, 0, 5)
	if after := s.revision(); after != before {
		t.Errorf("the second start wrote revisions %d to %d", before+1, after)
	}
}

// TestNewVersionOfADefinitionIsInForceForItsObjects: both change in one start.
func TestNewVersionOfADefinitionIsInForceForItsObjects(t *testing.T) {
	s := start(t)
	s.must(write(t, "a.yaml", shop+"---\n"+definition+"---\n"+cronTab), 3, 0, 0)
	wider := strings.Replace(definition, "cron: {type: string}", "cron: {type: string}\n              zone: {type: string}", 1)
	s.must(write(t, "a.yaml", cronTab+"  \n", "b.yaml", wider), 0, 1, 1)
	zoned := strings.Replace(cronTab, "spec: {", "spec: {zone: UTC, ", 1)
	s.must(write(t, "a.yaml", zoned, "b.yaml", strings.Replace(wider, "default: 1", "default: 2", 1)), 0, 2, 0)
	if body := string(s.find("example.com", "crontabs", "shop", "nightly").JSON()); !strings.Contains(body, `"zone":"UTC"`) {
		t.Errorf("the object is %s", body)
	}
}

func TestListsAreExpanded(t *testing.T) {
	s := start(t)
	s.must(write(t,
		"list.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"+
			"- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - {metadata: {name: a, namespace: shop}}\n  - "+
			"{metadata: {name: b}}\n",
		"more.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}
			{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"d"},"stringData":{"x":"y"}}]}`,
	), 5, 0, 0)
	for plural, name := range map[string]string{"configmaps": "b", "secrets": "d"} {
		if s.find("", plural, "default", name) == nil {
			t.Errorf("%s %s is not in the namespace default", plural, name)
		}
	}
}

// TestFieldsOfTheServerAreIgnored: of what kubectl get -o yaml prints, all but the
// resourceVersion can stay.
func TestFieldsOfTheServerAreIgnored(t *testing.T) {
	s := start(t)
	dir := write(t, "a.yaml", `apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: 8a7f4d3e-0d3c-4d9e-a6d7-0b0ff0f6a6c1
  generation: 7
  creationTimestamp: "2020-01-01T00:00:00Z"
  deletionTimestamp: "2020-01-01T00:00:00Z"
  managedFields: [{manager: x}]
spec: {containers: [{name: web, image: nginx}], nodeName: n1}
status: {phase: Running}
`)
	s.must(dir, 1, 0, 0)
	s.must(dir, 0, 0, 1)
	o := s.find("", "pods", "default", "web")
	if body := string(o.JSON()); strings.Contains(body, "8a7f4d3e") || strings.Contains(body, "2020-01-01") ||
		strings.Contains(body, "Running") {
		t.Errorf("the manifest's own fields were stored: %s", body)
	}
}

// TestBadManifestsAreAllReportedAndNothingIsWritten: the table has what the error says, in
// the order of the files.
func TestBadManifestsAreAllReportedAndNothingIsWritten(t *testing.T) {
	table := []struct{ name, text, want string }{
		{"01.yaml", "a: 1\n b: 2", "01.yaml:2: document 1: malformed YAML: line 2: mapping values are not allowed"},
		{"02.yaml", shop + "---\nkind: ConfigMap\n", "02.yaml:5: document 2: ConfigMap (without a name): apiVersion is missing"},
		{
			"03.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop}",
			"03.yaml:1: document 1: ConfigMap shop/(without a name): metadata.name is missing",
		},
		{
			"04.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}",
			"metadata.generateName would create another object at each start: set metadata.name",
		},
		{
			"05.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, resourceVersion: '5'}",
			"metadata.resourceVersion is set",
		},
		{"06.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}", "metadata.name is no text: write it in quotes"},
		{
			"07.yaml", "apiVersion: v1\nkind: ConfigMop\nmetadata: {name: x}",
			"07.yaml:1: document 1: ConfigMop x: the server has no kind ConfigMop in apiVersion v1",
		},
		{
			"08.yaml", "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x}",
			"does not have this kind in apiVersion apps/v1beta1: use apps/v1",
		},
		{"09.yaml", "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: x}", "add its CustomResourceDefinition"},
		{
			"10.yaml", configMap("nowhere", "x", "y"),
			`10.yaml:1: document 1: ConfigMap nowhere/x: there is no namespace "nowhere": add a manifest of it`,
		},
		{
			"11.yaml", configMap("shop", "twice", "a") + "---\n" + configMap("shop", "twice", "b"),
			"11.yaml:9: document 2: ConfigMap shop/twice: the object is there twice: 11.yaml:1: document 1: the first",
		},
		{"12.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndota: {}", `unknown field "dota"`},
		{
			"13.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},"data":{},"data":{}}`,
			`13.json:1: document 1: duplicate field "data"`,
		},
		{
			"14.yaml", strings.Replace(deployment, "containerPort: 80", "containerPort: 80000", 1),
			"14.yaml:1: document 1: Deployment shop/web: ",
		},
		{
			"15.yaml", "apiVersion: v1\nkind: List\nitems: [5, {apiVersion: v1, kind: Pod, metadata: {name: Web}}]",
			"15.yaml:1: document 1, item 1: (without a name): apiVersion is missing",
		},
		{
			"16.yaml", cronTab[:len(cronTab)-len("spec: {cron: '0 0 * * *'}\n")] + "spec: {}\n",
			"16.yaml:1: document 1: CronTab shop/nightly: ",
		},
		{"17.yaml", definition, ""},
		{"18.yaml", "apiVersion: v1\nkind: Binding\nmetadata: {name: x}\ntarget: {name: y}", "no kind Binding"},
		{
			"19.yaml", "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nmetadata: {name: x}\nspec: {}",
			"cannot be applied, because the server does not get them",
		},
		{
			"20.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 5}",
			"20.yaml:1: document 1: ConfigMap default/x: ",
		},
		{
			"21.yaml",
			"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{name: a, port: 80}, {name: b, port: 80}]}",
			`duplicate entries for key [port=80,protocol="TCP"]`,
		},
	}
	s := start(t)
	before := s.revision()
	var files []string
	for _, c := range table {
		files = append(files, c.name, c.text)
	}
	done, problem := s.apply(write(t, files...))
	if done != (seed.Result{}) || s.revision() != before {
		t.Errorf("%+v, and revision %d after %d: something was written", done, s.revision(), before)
	}
	lines := strings.Split(problem, "\n")
	if !strings.Contains(lines[0], "problems with the manifests, so nothing was written:") {
		t.Errorf("the error begins with %q", lines[0])
	}
	for _, c := range table {
		found := false
		for _, line := range lines {
			found = found || c.want != "" && strings.HasPrefix(line, "  "+c.name) && strings.Contains(line, c.want)
			if c.want == "" && strings.HasPrefix(line, "  "+c.name) {
				t.Errorf("a manifest that is right: %s", line)
			}
		}
		if !found && c.want != "" {
			t.Errorf("%s: the error does not say %q:\n%s", c.name, c.want, problem)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	s := start(t)
	_, problem := s.apply(write(t, "a.yaml", strings.Repeat("a: 1\n---\n", 1500)))
	if got := strings.Count(problem, "\n"); got != 1001 || !strings.HasSuffix(problem, "and 500 more") ||
		!strings.HasPrefix(problem, "1500 problems") {
		t.Errorf("%d lines: %.100s", got, problem)
	}
}

// TestFailureOfAWriteNamesWhatWasDone: definitions that take each other's names are each
// right alone.
func TestFailureOfAWriteNamesWhatWasDone(t *testing.T) {
	s := start(t)
	other := strings.NewReplacer("crontabs", "others", "singular: crontab", "singular: other").Replace(definition)
	_, problem := s.apply(write(t, "a.yaml", definition, "b.yaml", other, "c.yaml", shop))
	if !strings.Contains(problem,
		"b.yaml:1: document 1: CustomResourceDefinition others.example.com: the definition is not established") ||
		!strings.Contains(problem, "2 objects were created") {
		t.Errorf("got %s", problem)
	}
}

func TestApplyEndsWithItsContext(t *testing.T) {
	s := start(t)
	files, err := manifest.Find([]string{write(t, "a.yaml", configMap("default", "x", "y"))})
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := seed.New(seed.Config{
		Verbs: s, Live: s.live, Files: files, Logger: slog.New(slog.DiscardHandler),
	}).Apply(ctx); !errors.Is(err, stopped) {
		t.Errorf("got %v, want the cause", err)
	}
}

func BenchmarkApply10000ConfigMaps(b *testing.B) {
	var files []string
	for i := range 10_000 {
		files = append(files, fmt.Sprintf("%d.yaml", i), configMap("default", fmt.Sprintf("c%d", i), "x"))
	}
	dir := write(b, files...)
	for b.Loop() {
		s := start(b)
		s.must(dir, 10_000, 0, 0)
	}
}
