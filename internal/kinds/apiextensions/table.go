package apiextensions

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func definitionTable() kinds.Table {
	return table.Of(definitionCells, append(
		append(
			[]table.Column{table.Name(), table.Str("Scope", "Cluster/Namespaced"), table.Str("Versions", "Served versions")},
			table.Created().Columns[1]),
		table.Wide(
			table.Str("Group", "API group"),
			table.Str("Kind", "CustomResource kind"),
			table.Str("ShortNames", "Short names"),
			table.Boolean("Established", "Established status"),
		)...)...)
}

func definitionCells(o *apiextensionsv1.CustomResourceDefinition, r table.Meta) []any {
	var served []string
	for _, v := range o.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			served = append(served, v.Name+"(storage)")
		case v.Served:
			served = append(served, v.Name)
		}
	}
	slices.Sort(served)
	established := slices.ContainsFunc(o.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	return []any{
		r.Name, string(o.Spec.Scope), strings.Join(served, ","), table.Stamp(r.Created), o.Spec.Group, o.Spec.Names.Kind,
		strings.Join(o.Spec.Names.ShortNames, ","), established,
	}
}
