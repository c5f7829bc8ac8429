package apiextensions_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/apiextensions"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestCustomResourceDefinitionRows(t *testing.T) {
	const columns = "Name | Scope | Versions | Created At | Group* | Kind* | ShortNames* | Established*"
	tabletest.Check(
		t,
		tabletest.Of(apiextensions.Kinds(), "customresourcedefinitions.apiextensions.k8s.io"),
		columns,
		[]tabletest.Case{
			{
				"established", `
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, shortNames: [wd, wid]}
  versions: [{name: v1beta1, served: true}, {name: v1alpha1}, {name: v1, served: true, storage: true}]
status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`,
				"x | Namespaced | v1(storage),v1beta1 | 2026-05-01T12:00:00Z | example.org | Widget | wd,wid | true",
			},
			{
				"not served",
				`{spec: {group: example.org, scope: Cluster, names: {kind: Gadget}, versions: [{name: v1, storage: true}]}, ` +
					`status: {conditions: [{type: Established, status: "False"}]}}`,
				"x | Cluster |  | 2026-05-01T12:00:00Z | example.org | Gadget |  | false",
			},
		},
	)
}
