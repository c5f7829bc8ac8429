package coordination_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/coordination"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestLeaseRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(coordination.Kinds(), "leases.coordination.k8s.io"), "Name | Holder | Age", []tabletest.Case{
		{"held", `spec: {holderIdentity: node-1}`, "x | node-1 | 90m"},
		{"free", ``, "x |  | 90m"},
	})
}
