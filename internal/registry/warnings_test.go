package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/wire"
)

// podWith is a pod about which upstream warns once, with other members of its metadata.
func podWith(meta string) string {
	return `{"metadata":{` + meta + `},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A"},{"name":"A"}]}]},"zz":1}`
}

const (
	unknownWarning = `unknown field "zz"`
	hiddenWarning  = `spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`
)

func TestWarningsComeInTheOrderOfAWritesSteps(t *testing.T) {
	p := &reviewer{
		admit: func(ctx context.Context, _ admission.Attributes, _ func() error) error {
			warning.AddWarning(ctx, "", "from a mutating plugin")
			return nil
		},
		validate: func(ctx context.Context, _ admission.Attributes) error {
			warning.AddWarning(ctx, "", "from a validating plugin")
			return nil
		},
	}
	s := reviewed(t, p)
	out, err := s.Create(t.Context(), by(s.at("pods", "default")), []byte(podWith(`"name":"a"`)), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	want := []string{unknownWarning, "from a mutating plugin", hiddenWarning, "from a validating plugin"}
	if diff := cmp.Diff(want, out.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedWritesHaveTheWarningsUpToTheRefusal(t *testing.T) {
	s := serve(t)
	create := func(resource, body string) (wire.Written, error) {
		return s.Create(t.Context(), s.at(resource, "default"), []byte(body), metav1.CreateOptions{})
	}
	s.create(s.at("pods", "default"), podWith(`"name":"a"`))
	s.create(s.at("configmaps", "default"), `{"metadata":{"name":"a"}}`)
	for _, c := range []struct {
		what string
		do   func() (wire.Written, error)
		code int32
		want []string
	}{
		{
			"an invalid object", func() (wire.Written, error) { return create("pods", podWith(`"name":"No"`)) }, 422,
			[]string{unknownWarning},
		},
		{
			"invalid metadata",
			func() (wire.Written, error) { return create("pods", podWith(`"name":"b","labels":{"a":"not valid"}`)) }, 422,
			[]string{unknownWarning},
		},
		{
			"an object that exists", func() (wire.Written, error) { return create("pods", podWith(`"name":"a"`)) }, 409,
			[]string{unknownWarning, hiddenWarning},
		},
		{
			"no name", func() (wire.Written, error) { return create("configmaps", `{"metadata":{"Name":"x"}}`) }, 422,
			[]string{`unknown field "metadata.Name"`},
		},
		{"an update with another version", func() (wire.Written, error) {
			return s.Update(t.Context(), s.at("configmaps", "default", "a"),
				[]byte(`{"metadata":{"name":"a","resourceVersion":"1"},"zz":1}`), metav1.UpdateOptions{})
		}, 409, []string{unknownWarning}},
		{"an invalid patch", func() (wire.Written, error) {
			return s.Patch(t.Context(), s.at("configmaps", "default", "a"),
				mergePatch(`{"metadata":{"labels":{"a":"not valid"}},"zz":1}`), metav1.PatchOptions{})
		}, 422, []string{unknownWarning}},
	} {
		t.Run(c.what, func(t *testing.T) {
			out, err := c.do()
			if err == nil || wire.StatusOf(err).Code != c.code {
				t.Errorf("%v, want %d", err, c.code)
			}
			if diff := cmp.Diff(c.want, out.Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ruled is the definition of Foo with a rule about spec.n that foos may break from before.
func ruled(rule string) string {
	return strings.Replace(definition(""), `"n":{"type":"integer"}}}`, `"n":{"type":"integer"`+rule+`}}}`, 1)
}

func TestRulesThatUnchangedPartsBreakAreWarnings(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{"a":"1","n":9}`))
	const rule = `,"x-kubernetes-validations":[{"rule":"self < 5","message":"too many"}]`
	if _, err := s.Patch(t.Context(), s.at(crds, "", "foos.t.example.com"), mergePatch(ruled(rule)),
		metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch: %v", err)
	}
	patch := func(subresource, body string) (wire.Written, error) {
		target := s.at(foos, "default", "a")
		target.Subresource = subresource
		return s.Patch(t.Context(), target, mergePatch(body), metav1.PatchOptions{})
	}
	want := []string{`spec.n: Invalid value: 9: too many`}
	for _, c := range []struct {
		what, subresource, body string
		code                    int32
	}{
		{"another part", "", `{"spec":{"a":"2"}}`, 200},
		{"the status", "status", `{"status":{"n":1}}`, 200},
		{"another part, wrongly", "", `{"spec":{"a":"3"},"metadata":{"labels":{"a":"not valid"}}}`, 422},
	} {
		out, err := patch(c.subresource, c.body)
		if code := codeOf(err); code != c.code {
			t.Errorf("%s: %v, want %d", c.what, err, c.code)
		}
		if diff := cmp.Diff(want, out.Warnings); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	if out, err := patch("", `{"spec":{"n":8}}`); codeOf(err) != 422 || len(out.Warnings) > 0 {
		t.Errorf("a changed part: %v, warnings %q", err, out.Warnings)
	}
}

func codeOf(err error) int32 {
	if err == nil {
		return 200
	}
	return wire.StatusOf(err).Code
}

func TestNewUnknownFormatsOfDefinitionsAreWarnings(t *testing.T) {
	s := serve(t)
	formatted := func(format string) string {
		return strings.Replace(definition(""), `"a":{"type":"string"}`, `"a":{"type":"string","format":"`+format+`"}`, 1)
	}
	made, err := s.Create(t.Context(), s.at(crds), []byte(formatted("nope")), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if diff := cmp.Diff([]string{`unrecognized format "nope"`}, made.Warnings); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		patch string
		want  []string
	}{
		{`{"metadata":{"labels":{"a":"b"}}}`, nil}, // it is known
		{formatted("neither"), []string{`unrecognized format "neither"`}},
		{formatted("date-time"), nil},
	} {
		out, err := s.Patch(t.Context(), s.at(crds, "", "foos.t.example.com"), mergePatch(c.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("patch: %v", err)
		}
		if diff := cmp.Diff(c.want, out.Warnings); diff != "" {
			t.Errorf("%.60s: %s", c.patch, diff)
		}
	}
}

// TestScalingAWorkloadWarnsAboutItsTemplate: the generation changes, as upstream.
func TestScalingAWorkloadWarnsAboutItsTemplate(t *testing.T) {
	s := serve(t)
	const deployments = "apps/v1/deployments"
	s.create(s.at(deployments, "default"), `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},`+
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A"},{"name":"A"}]}]}}}}`)
	want := []string{"spec.template." + hiddenWarning}
	for _, c := range []struct {
		subresource, patch string
		want               []string
	}{
		{"scale", `{"spec":{"replicas":2}}`, want},
		{"", `{"spec":{"replicas":3}}`, want},
		{"", `{"metadata":{"labels":{"a":"b"}}}`, nil},
		{"status", `{"status":{"replicas":3}}`, nil},
	} {
		target := s.at(deployments, "default", "d")
		target.Subresource = c.subresource
		out, err := s.Patch(t.Context(), target, mergePatch(c.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("patch: %v", err)
		}
		if diff := cmp.Diff(c.want, out.Warnings); diff != "" {
			t.Errorf("%s %s: %s", c.subresource, c.patch, diff)
		}
	}
}
