package custom

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// tableOf returns the table with the columns of a version.
func tableOf(defined []apiextensionsv1.CustomResourceColumnDefinition) kinds.Table {
	t := kinds.Table{Rows: rowsOf(defined)}
	t.Columns, t.Row = columns(defined)
	return t
}

// TableOf returns the table of a version of a CustomResourceDefinition, which is JSON, without reading its
// schemas. Errors: the definition cannot be read, or does not serve the version.
func TableOf(crd []byte, version string) (kinds.Table, error) {
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
		return kinds.Table{}, fmt.Errorf("read custom resource definition: %w", err)
	}
	for _, v := range d.Spec.Versions {
		if v.Name == version && v.Served {
			return tableOf(v.AdditionalPrinterColumns), nil
		}
	}
	return kinds.Table{}, fmt.Errorf("the custom resource definition does not serve the version %q", version)
}
