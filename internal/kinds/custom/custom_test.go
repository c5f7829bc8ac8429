package custom_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

func now() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }

// definition reads a definition, defaults it, requires it to be valid, and
// establishes it next to the resources of catalog.
func definition(tb testing.TB, name string, catalog *kinds.Catalog) *unstructured.Unstructured {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &u.Object); err != nil {
		tb.Fatal(err)
	}
	custom.DefaultDefinition(u.Object)
	crd := typed(tb, u)
	if errs := custom.CheckDefinition(crd); len(errs) > 0 {
		tb.Fatalf("%s is invalid: %v", name, errs.ToAggregate())
	}
	if err := custom.Establish(u, catalog, now()); err != nil {
		tb.Fatal(err)
	}
	return u
}

func typed(tb testing.TB, u *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	body, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(body, crd)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return crd
}

// resources returns the versions of a definition by name.
func resources(tb testing.TB, name string) map[string]*kinds.Resource {
	tb.Helper()
	body, err := definition(tb, name, kinds.NewCatalog()).MarshalJSON()
	if err != nil {
		tb.Fatal(err)
	}
	list, err := custom.Resources(body)
	if err != nil {
		tb.Fatal(err)
	}
	byVersion := map[string]*kinds.Resource{}
	for _, r := range list {
		byVersion[r.Version] = r
	}
	return byVersion
}

func TestDefinitionBecomesAResourcePerVersion(t *testing.T) {
	foos := resources(t, "foos")
	if len(foos) != 2 {
		t.Fatalf("got %d versions, want 2", len(foos))
	}
	v1 := foos["v1"]
	if v1.Kind != "Foo" || v1.ListKind != "FooList" || v1.Singular != "foo" || !v1.Namespaced || !v1.Custom ||
		v1.StorageVersion != "v1" {
		t.Errorf("got %+v", v1)
	}
	if !v1.HasStatus || foos["v1alpha1"].HasStatus {
		t.Error("want a status subresource in v1 only")
	}
	want := &kinds.ScalePaths{
		SpecReplicas: []string{"spec", "replicas"}, StatusReplicas: []string{"status", "availableReplicas"},
		Selector: []string{"status", "selector"}, Strict: true,
	}
	if diff := cmp.Diff(want, v1.Scale); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]wire.FieldPath{{Label: "spec.deploymentName", Path: []string{"spec", "deploymentName"}}},
		v1.Fields); diff != "" {
		t.Errorf("selectable fields (-want +got):\n%s", diff)
	}
	if got := foos["v1alpha1"].Deprecation; got !=
		"samplecontroller.k8s.io/v1alpha1 Foo is deprecated; use samplecontroller.k8s.io/v1 Foo" {
		t.Errorf("got deprecation %q", got)
	}
	if bundle := resources(t, "bundles")["v1beta1"]; bundle.Namespaced {
		t.Error("bundles are cluster-scoped")
	}
}

func TestUnestablishedDefinitionServesNothing(t *testing.T) {
	list, err := custom.Resources([]byte(`{"spec":{"group":"a.io","versions":[{"name":"v1","served":true,"storage":true}]}}`))
	if err != nil || len(list) != 0 {
		t.Errorf("got %v, %v, want nothing", list, err)
	}
}

func TestUnservedVersionsAreMarked(t *testing.T) {
	for i, stored := range map[int]bool{0: false, 1: true} {
		u := definition(t, "foos", kinds.NewCatalog())
		versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		v, _ := versions[i].(map[string]any)
		v["served"] = false
		u.Object["spec"].(map[string]any)["versions"] = versions
		body, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		list, err := custom.Resources(body)
		if err != nil {
			t.Fatal(err)
		}
		c := kinds.NewCatalog(list...)
		if len(c.Resources()) != 1 || len(c.Stored()) != 1 || c.Stored()[0].Unserved != stored {
			t.Errorf("version %d: got %d served and %d stored", i, len(c.Resources()), len(c.Stored()))
		}
		if all := slices.Collect(c.All()); len(all) != 2 {
			t.Errorf("version %d: got %d versions in all, want 2", i, len(all))
		}
	}
}

func TestBodiesAreDecodedAsCustomResources(t *testing.T) {
	foo := resources(t, "foos")["v1"]
	const head = `{"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo",`
	tests := []struct {
		name, body string
		code       int32
		want       string
	}{
		{
			"empty", ``, 400,
			`the object provided is unrecognized (must be of type Foo): couldn't get version/kind; json parse error: ` +
				`unexpected end of JSON input (<empty>)`,
		},
		{"a list", `[]`, 400, `json parse error: json: cannot unmarshal array`},
		{
			"no kind", `{}`, 400,
			`the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing in '{}' ({})`,
		},
		{"null", `null`, 400, `Object 'Kind' is missing`},
		{
			"kind of another type", `{"kind":{}}`, 400,
			`couldn't get version/kind; json parse error: json: cannot unmarshal object`,
		},
		{
			"another kind", `{"apiVersion":"samplecontroller.k8s.io/v1","kind":"Bar","metadata":{"name":"f1"}}`, 422,
			`Bar.samplecontroller.k8s.io "f1" is invalid: kind: Invalid value: "Bar": must be Foo`,
		},
		{
			"another version", `{"apiVersion":"samplecontroller.k8s.io/v2","kind":"Foo"}`, 400,
			`the API version in the data (samplecontroller.k8s.io/v2) does not match the expected API version ` +
				`(samplecontroller.k8s.io/v1)`,
		},
		{
			"labels as a number", head + `"metadata":{"labels":3}}`, 400,
			`Foo in version "v1" cannot be handled as a Foo: json: cannot unmarshal number`,
		},
		{
			"strict", head + `"spec":{"zz":1,"a":1,"a":2},"metadata":{"nope":1}}`, 400,
			`strict decoding error: duplicate field "spec.a", unknown field "metadata.nope", unknown field "spec.a", ` +
				`unknown field "spec.zz"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := foo.Type.Decode([]byte(tt.body), kinds.FieldsStrict)
			status, ok := errors.AsType[*wire.StatusError](err)
			if !ok {
				t.Fatalf("got %v (%T), want a *wire.StatusError", err, err)
			}
			if status.ErrStatus.Code != tt.code || !strings.Contains(status.ErrStatus.Message, tt.want) {
				t.Errorf("got %d %q\nwant %d %q", status.ErrStatus.Code, status.ErrStatus.Message, tt.code, tt.want)
			}
		})
	}
}

// decoded decodes and defaults a body as a write does.
func decoded(tb testing.TB, r *kinds.Resource, rest string) *unstructured.Unstructured {
	tb.Helper()
	body := `{"apiVersion":"` + r.APIVersion() + `","kind":"` + r.Kind + `","metadata":{"name":"x","creationTimestamp":null}` +
		rest + `}`
	u, _, err := r.Type.Decode([]byte(body), kinds.FieldsWarn)
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.Type.Default(u); err != nil {
		tb.Fatal(err)
	}
	return u
}

func TestUnknownFieldsArePrunedWithAWarning(t *testing.T) {
	foo := resources(t, "foos")["v1"]
	body := `{"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","metadata":{"name":"x"},"spec":{"deploymentName":"d",` +
		`"zz":1,"note":null,"tier":null}}`
	u, warnings, err := foo.Type.Decode([]byte(body), kinds.FieldsWarn)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`unknown field "spec.zz"`}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if err := foo.Type.Default(u); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"deploymentName": "d", "replicas": int64(1), "note": nil}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"name": "x"}, u.Object["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestPreservedAndEmbeddedFieldsStay(t *testing.T) {
	bundle := resources(t, "bundles")["v1beta1"]
	u := decoded(t, bundle, `,"values":{"a":{"b":[1,2.5,null]}},"known":{"n":1},"gone":true,
		"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","zz":1},"spec":{"x":1}}`)
	want := map[string]any{
		"apiVersion": "pkg.example.com/v1beta1", "kind": "Bundle", "metadata": map[string]any{"name": "x"},
		"values": map[string]any{"a": map[string]any{"b": []any{int64(1), 2.5, nil}}},
		"known":  map[string]any{"n": int64(1)},
		"template": map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"x": int64(1)},
		},
	}
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if errs, _ := bundle.Type.Validate(u, nil); len(errs) > 0 {
		t.Errorf("got %v, want none", errs.ToAggregate())
	}
}

func TestObjectsThatBreakTheSchemaAreInvalid(t *testing.T) {
	foo, cert := resources(t, "foos")["v1"], resources(t, "certificates")["v1"]
	const valid = `"issuerRef":{"name":"ca"},"secretName":"s"`
	tests := []struct {
		resource *kinds.Resource
		rest     string
		want     string
	}{
		{foo, `,"spec":{}`, `spec.deploymentName: Required value`},
		{
			foo, `,"spec":{"deploymentName":1}`,
			`spec.deploymentName: Invalid value: "integer": spec.deploymentName in body must be of type string: "integer"`,
		},
		{
			foo, `,"spec":{"deploymentName":"d","replicas":11}`,
			`spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10`,
		},
		{foo, `,"spec":{"deploymentName":"d","tier":"x"}`, `spec.tier: Unsupported value: "x": supported values: "web", "db"`},
		{
			foo, `,"status":{"availableReplicas":-1}`,
			`status.availableReplicas: Invalid value: -1: should be a non-negative integer`,
		},
		{cert, ``, `spec: Required value`},
		{cert, `,"spec":{` + valid + `,"renewBefore":3000}`, `spec: Invalid value: renewBefore must be less than durationHours`},
		{cert, `,"spec":{` + valid + `,"dnsNames":["a","a"]}`, `spec.dnsNames[1]: Duplicate value: "a"`},
		{cert, `,"spec":{` + valid + `,"keystores":[{"name":"a"},{"name":"a"}]}`, `spec.keystores[1]: Duplicate value`},
		{cert, `,"spec":{"secretName":""}`, `some validation rules were not checked because the object was invalid`},
	}
	for _, tt := range tests {
		t.Run(tt.resource.Kind+tt.rest, func(t *testing.T) {
			errs, _ := tt.resource.Type.Validate(decoded(t, tt.resource, tt.rest), nil)
			if aggregate := errs.ToAggregate(); aggregate == nil || !strings.Contains(aggregate.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", aggregate, tt.want)
			}
		})
	}
	u := decoded(t, foo, `,"spec":{"deploymentName":"d"}`)
	u.SetName("Upper")
	if errs, _ := foo.Type.Validate(u, nil); !strings.Contains(fmt.Sprint(errs.ToAggregate()),
		`metadata.name: Invalid value: "Upper"`) {
		t.Errorf("got %v, want an error of the name", errs)
	}
}

func TestValidationRulesGetTheOldObject(t *testing.T) {
	cert := resources(t, "certificates")["v1"]
	before := decoded(t, cert, `,"spec":{"issuerRef":{"name":"ca"},"secretName":"s"}`)
	if errs, _ := cert.Type.Validate(before, nil); len(errs) > 0 {
		t.Fatalf("creation: got %v", errs.ToAggregate())
	}
	after := decoded(t, cert, `,"spec":{"issuerRef":{"name":"ca"},"secretName":"other"}`)
	if errs, _ := cert.Type.Validate(after, before); !strings.Contains(fmt.Sprint(errs.ToAggregate()),
		"secretName is immutable") {
		t.Errorf("update: got %v, want secretName is immutable", errs)
	}
}

func TestUpdateMayKeepFieldsThatWereInvalidBefore(t *testing.T) {
	foo := resources(t, "foos")["v1"]
	before := decoded(t, foo, `,"spec":{"deploymentName":"d","replicas":11}`)
	after := before.DeepCopy()
	after.SetLabels(map[string]string{"a": "b"})
	if errs, _ := foo.Type.Validate(after, before); len(errs) > 0 {
		t.Errorf("got %v, want none", errs.ToAggregate())
	}
	if err := unstructured.SetNestedField(after.Object, int64(12), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if errs, _ := foo.Type.Validate(after, before); len(errs) == 0 {
		t.Error("a new invalid value was accepted")
	}
}

func TestDefaultsAreNestedAndCopied(t *testing.T) {
	cert := resources(t, "certificates")["v1"]
	u := decoded(t, cert, `,"spec":{"issuerRef":{"name":"ca"},"secretName":"s","keystores":[{"name":"a"}]}`)
	want := map[string]any{
		"issuerRef": map[string]any{"name": "ca", "kind": "Issuer", "group": "certs.example.com"}, "secretName": "s",
		"durationHours": int64(2160), "privateKey": map[string]any{"algorithm": "RSA"},
		"keystores": []any{map[string]any{"name": "a", "create": true}},
	}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if err := unstructured.SetNestedField(u.Object, "changed", "spec", "privateKey", "algorithm"); err != nil {
		t.Fatal(err)
	}
	again := decoded(t, cert, `,"spec":{}`)
	if got, _, _ := unstructured.NestedString(again.Object, "spec", "privateKey", "algorithm"); got != "RSA" {
		t.Errorf("a changed object changed the default to %q", got)
	}
}

func TestProtobufAndStrategicMergeAreRefused(t *testing.T) {
	foo := resources(t, "foos")["v1"]
	_, protobufErr := foo.Type.DecodeProtobuf([]byte("k8s\x00"))
	_, mergeErr := foo.Type.StrategicMerge([]byte(`{}`), []byte(`{}`))
	for _, err := range []error{protobufErr, mergeErr} {
		if status, ok := errors.AsType[*wire.StatusError](err); !ok || status.ErrStatus.Code != 415 {
			t.Errorf("got %v, want 415", err)
		}
	}
}

func TestPrinterColumns(t *testing.T) {
	cert := resources(t, "certificates")["v1"]
	var names []string
	for _, c := range cert.Columns {
		names = append(names, c.Name)
	}
	if want := []string{"Name", "Ready", "Secret", "Revision", "CA", "Expires", "Share", "Age"}; !slices.Equal(want, names) {
		t.Errorf("got columns %q, want %q", names, want)
	}
	if cert.Columns[3].Priority != 1 || cert.Columns[7].Description != "Creation time." {
		t.Errorf("got %+v and %+v", cert.Columns[3], cert.Columns[7])
	}
	row := func(body string) []any {
		o, err := wire.ParseObject([]byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		return kinds.Shown(cert.Row(o), now())
	}
	full := row(
		`{"apiVersion":"certs.example.com/v1","kind":"Certificate","metadata":{"name":"c","namespace":"n","resourceVersion":"7","creationTimestamp":"2026-11-20T09:00:00Z"},
		"spec":{"secretName":"s","isCA":true,"share":2},"status":{"revision":3.0,"notAfter":"soon","conditions":[{"type":"Other","status":"False"},{"type":"Ready","status":"True"}]}}`)
	if diff := cmp.Diff([]any{"c", "True", "s", int64(3), true, "<invalid>", 2.0, "60m"}, full); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	empty := row(
		`{"apiVersion":"certs.example.com/v1","kind":"Certificate","metadata":{"name":"c","namespace":"n","resourceVersion":"7"},"spec":{"isCA":"no"}}`)
	if diff := cmp.Diff([]any{"c", nil, nil, nil, nil, nil, nil, nil}, empty); diff != "" {
		t.Errorf("row without values (-want +got):\n%s", diff)
	}
	foo := resources(t, "foos")["v1"]
	if len(foo.Columns) != 2 || foo.Columns[1].Name != "Age" {
		t.Errorf("got default columns %+v", foo.Columns)
	}
}
