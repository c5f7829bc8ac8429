package gokind_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// wantStatus requires err to be a Status with this code and this in its message.
func wantStatus(t *testing.T, err error, code int32, message string) {
	t.Helper()
	status, ok := errors.AsType[*wire.StatusError](err)
	if !ok {
		t.Fatalf("got %v (%T), want a *wire.StatusError", err, err)
	}
	if status.ErrStatus.Code != code || !strings.Contains(status.ErrStatus.Message, message) {
		t.Errorf("got %d %q, want %d with %q", status.ErrStatus.Code, status.ErrStatus.Message, code, message)
	}
}

func TestUnknownAndDuplicateFieldsFollowFieldValidation(t *testing.T) {
	typ := builtintest.Resource(t, "apps", "v1", "deployments").Type
	body := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1,"replicas":2,"zz":true}}`)

	_, _, err := typ.Decode(body, kinds.FieldsStrict)
	wantStatus(
		t,
		err,
		http.StatusBadRequest,
		`Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: duplicate field "spec.replicas", `+
			`unknown field "spec.zz"`,
	)

	u, warnings, err := typ.Decode(body, kinds.FieldsWarn)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`duplicate field "spec.replicas"`, `unknown field "spec.zz"`}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	spec, _ := u.Object["spec"].(map[string]any)
	if spec["replicas"] != int64(2) || spec["zz"] != nil {
		t.Errorf("got spec %v, want the later duplicate and no unknown field", spec)
	}

	if _, warnings, err = typ.Decode(body, kinds.FieldsIgnore); err != nil || len(warnings) > 0 {
		t.Errorf("ignore: got %v and warnings %q, want neither", err, warnings)
	}
}

func TestMalformedBodiesGetUpstreamsErrors(t *testing.T) {
	typ := builtintest.Resource(t, "", "v1", "configmaps").Type
	tests := []struct{ name, body, want string }{
		{
			"empty",
			``,
			`the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ` +
				`unexpected end of JSON input (<empty>)`,
		},
		{"cut off", `{"kind":`, `couldn't get version/kind; json parse error: unexpected end of JSON input ({"kind":)`},
		{"not an object", `[1]`, `json: cannot unmarshal array into Go value of type struct`},
		{"kind of another type", `{"kind":3}`, `json: cannot unmarshal number`},
		{"another kind", `{"apiVersion":"v1","kind":"Secret"}`, `Secret in version "v1" cannot be handled as a ConfigMap: `},
		{
			"another version",
			`{"apiVersion":"v2","kind":"ConfigMap"}`,
			`the API version in the data (v2) does not match the expected API version (v1)`,
		},
		{
			"another kind with a wrong field",
			`{"apiVersion":"v1","kind":"Secret","data":3}`,
			`Secret in version "v1" cannot be handled as a ConfigMap: `,
		},
		{
			"wrong type",
			`{"data":{"a":1}}`,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ` +
				`ConfigMap.data of type string`,
		},
		{
			"labels as a number",
			`{"metadata":{"labels":3}}`,
			`json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := typ.Decode([]byte(tt.body), kinds.FieldsWarn)
			wantStatus(t, err, http.StatusBadRequest, tt.want)
		})
	}
}

func TestKindAndVersionMayBeMissing(t *testing.T) {
	u, _, err := builtintest.Resource(t, "apps", "v1", "deployments").Type.Decode([]byte(`{}`), kinds.FieldsStrict)
	if err != nil {
		t.Fatal(err)
	}
	if u.GetKind() != "Deployment" || u.GetAPIVersion() != "apps/v1" {
		t.Errorf("got %s %s, want apps/v1 Deployment", u.GetAPIVersion(), u.GetKind())
	}
}

func TestBadProtobufIsRefused(t *testing.T) {
	r := builtintest.Resource(t, "", "v1", "configmaps")
	nested := []byte{}
	for range 2000 {
		nested = append(appendLength([]byte{0x0a}, len(nested)), nested...)
	}
	tests := []struct {
		name string
		body []byte
		want string
	}{
		{"json", []byte(`{"kind":"ConfigMap"}`), `provided data does not appear to be a protobuf message`},
		{"cut off", []byte("k8s\x00\x0a\xff"), `read the protobuf envelope`},
		{
			"another kind",
			builtintest.Envelope(t, builtintest.Resource(t, "", "v1", "secrets"), []byte(`{}`)),
			`Secret in version "v1" cannot be handled as a ConfigMap`,
		},
		{"too deep", wrap(t, runtime.Unknown{Raw: nested}), `messages nest more than 1000 deep`},
		{"too deep before garbage", wrap(t, runtime.Unknown{Raw: append(nested, 0xff)}), `messages nest more than 1000 deep`},
		{"compressed", wrap(t, runtime.Unknown{ContentEncoding: "gzip"}), `unsupported content encoding "gzip"`},
		{
			"garbage inside",
			wrap(t, runtime.Unknown{Raw: []byte{0x0a, 0x7f}}),
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Type.DecodeProtobuf(tt.body)
			wantStatus(t, err, http.StatusBadRequest, tt.want)
		})
	}
}

func appendLength(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func wrap(tb testing.TB, u runtime.Unknown) []byte {
	tb.Helper()
	content, err := u.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte("k8s\x00"), content...)
}

func TestDeleteOptionsAreReadFromProtobuf(t *testing.T) {
	uid, policy := types.UID("a"), metav1.DeletePropagationBackground
	want := &metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(5)),
		PropagationPolicy:  &policy,
		Preconditions:      &metav1.Preconditions{UID: &uid},
	}
	raw, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := gokind.DecodeDeleteOptions(
		wrap(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apps/v1", Kind: "DeleteOptions"}, Raw: raw}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	_, err = gokind.DecodeDeleteOptions(builtintest.Envelope(t, builtintest.Resource(t, "", "v1", "secrets"), []byte(`{}`)))
	wantStatus(t, err, http.StatusBadRequest, "cannot be converted to DeleteOptions")
}

func TestStrategicMergeUsesMergeKeys(t *testing.T) {
	r := builtintest.Resource(t, "apps", "v1", "deployments")
	original := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a:1"},{"name":"b","image":"b:1"}]}}}}`)
	patched, err := r.Type.StrategicMerge(
		original,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"b:2"}]}}}}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"template":{"spec":{"containers":[{"image":"b:2","name":"b"},{"image":"a:1","name":"a"}]}}}}`
	if diff := cmp.Diff(containers(t, want), containers(t, string(patched))); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}

	_, err = r.Type.StrategicMerge(original, []byte(`{"spec":`))
	wantStatus(t, err, http.StatusBadRequest, "error decoding patch")
	_, err = r.Type.StrategicMerge(original, []byte(`{"spec":{"template":{"spec":{"containers":[{"image":"b:2"}]}}}}`))
	wantStatus(t, err, http.StatusUnprocessableEntity, "does not contain declared merge key: name")
	// The library panics on both of these.
	_, err = r.Type.StrategicMerge(original, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":["a"]}]}}}}`))
	wantStatus(t, err, http.StatusBadRequest, "invalid JSON document")
	_, err = r.Type.StrategicMerge(original, []byte(`{"spec":{"$retainKeys":[{}],"paused":true}}`))
	wantStatus(t, err, http.StatusBadRequest, "invalid JSON document")
}

// containers returns the images by name, since the order is the library's.
func containers(t *testing.T, body string) map[string]string {
	t.Helper()
	u, _, err := builtintest.Resource(t, "apps", "v1", "deployments").Type.Decode([]byte(body), kinds.FieldsStrict)
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]string{}
	spec, _ := u.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	podSpec, _ := template["spec"].(map[string]any)
	list, _ := podSpec["containers"].([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		name, _ := c["name"].(string)
		images[name], _ = c["image"].(string)
	}
	return images
}
