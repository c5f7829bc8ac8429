package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func leaseTable() kinds.Table {
	return table.Of(func(o *coordinationv1.Lease, r table.Meta) []any {
		return []any{r.Name, table.Deref(o.Spec.HolderIdentity), r.Age}
	}, table.Name(), table.Str("Holder", table.Doc(coordinationv1.LeaseSpec{}, "holderIdentity")), table.Age())
}
