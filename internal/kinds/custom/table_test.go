package custom_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestTheTableOfADefinitionIsThatOfItsResource(t *testing.T) {
	definition, err := os.ReadFile("testdata/certificates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &u.Object); err != nil {
		t.Fatal(err)
	}
	if err := custom.Establish(u, kinds.NewCatalog(), time.Now()); err != nil {
		t.Fatal(err)
	}
	crd, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	resources, err := custom.Resources(crd)
	if err != nil || len(resources) == 0 {
		t.Fatal(resources, err)
	}
	o, err := wire.ParseObject(
		[]byte(
			`{"metadata":{"name":"c"},"spec":{"secretName":"s","issuerRef":{"name":"i"}},`+
				`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		got, err := custom.TableOf(crd, r.Version)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Columns, got.Columns); diff != "" || got.Rows != r.Rows || len(got.Columns) < 4 {
			t.Errorf("%s: rows %s, want %s; columns (-want +got):\n%s", r.Version, got.Rows, r.Rows, diff)
		}
		if diff := cmp.Diff(r.Row(o), got.Row(o)); diff != "" {
			t.Errorf("%s: cells (-want +got):\n%s", r.Version, diff)
		}
	}
	if _, err := custom.TableOf(crd, "v0"); err == nil {
		t.Error("a version that is not there has a table")
	}
}
