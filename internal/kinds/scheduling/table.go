package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func priorityClassTable() kinds.Table {
	class := schedulingv1.PriorityClass{}
	return table.Of(func(o *schedulingv1.PriorityClass, r table.Meta) []any {
		return []any{r.Name, int64(o.Value), o.GlobalDefault, r.Age, table.Text(o.PreemptionPolicy, "")}
	}, table.Name(), table.Integer("Value", table.Doc(class, "value")), table.Boolean("Global-Default",
		table.Doc(class, "globalDefault")),
		table.Age(), table.Str("PreemptionPolicy", table.Doc(class, "preemptionPolicy")))
}
