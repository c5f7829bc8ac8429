package custom

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Table is how a version of a definition shows its objects; see the fields of kinds.Resource.
type Table struct {
	Columns []metav1.TableColumnDefinition
	Row     func(o *wire.Object) []any
	Rows    string
}

// TableOf returns the table of a version of a CustomResourceDefinition, which is JSON, without reading its
// schemas. Errors: the definition cannot be read, or does not serve the version.
func TableOf(crd []byte, version string) (Table, error) {
	var d struct {
		Spec struct {
			Versions []struct {
				Name                     string                                           `json:"name"`
				Served                   bool                                             `json:"served"`
				AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns"`
			} `json:"versions"`
		} `json:"spec"`
	}
	parts := jsontree.Parts("spec.versions.*.name", "spec.versions.*.served", "spec.versions.*.additionalPrinterColumns")
	if err := json.Unmarshal(jsontree.Extract(crd, parts), &d); err != nil {
		return Table{}, fmt.Errorf("read custom resource definition: %w", err)
	}
	for _, v := range d.Spec.Versions {
		if v.Name == version && v.Served {
			t := Table{Rows: rowsOf(v.AdditionalPrinterColumns)}
			t.Columns, t.Row = columns(v.AdditionalPrinterColumns)
			return t, nil
		}
	}
	return Table{}, fmt.Errorf("the custom resource definition does not serve the version %q", version)
}
