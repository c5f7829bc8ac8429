package node_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/node"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestRuntimeClassRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(node.Kinds(), "runtimeclasses.node.k8s.io"),
		"Name | Handler | Age",
		[]tabletest.Case{{"sandboxed", `handler: runsc`, "x | runsc | 90m"}},
	)
}
