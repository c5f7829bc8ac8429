package node

import (
	nodev1 "k8s.io/api/node/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func runtimeClassTable() kinds.Table {
	// Upstream looks the description up where there is none.
	return table.Of(func(o *nodev1.RuntimeClass, r table.Meta) []any { return []any{r.Name, o.Handler, r.Age} },
		table.Name(), table.Str("Handler", ""), table.Age())
}
