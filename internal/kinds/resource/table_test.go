package resource_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/resource"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestResourceClaimRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(resource.Kinds(), "resourceclaims.resource.k8s.io"), "Name | State | Age", []tabletest.Case{
		{"new", `{}`, "x | pending | 90m"},
		{"allocated", `status: {allocation: {}}`, "x | allocated | 90m"},
		{
			"in use",
			`status: {allocation: {}, reservedFor: [{resource: pods, name: web, uid: a}]}`,
			"x | allocated,reserved | 90m",
		},
	})
}

func TestResourceSliceRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(resource.Kinds(), "resourceslices.resource.k8s.io"),
		"Name | Node | Driver | Pool | Age",
		[]tabletest.Case{
			{
				"of a node",
				`spec: {driver: gpu.example.org, nodeName: node-1, pool: {name: a}}`,
				"x | node-1 | gpu.example.org | a | 90m",
			},
			{
				"of all nodes",
				`spec: {driver: gpu.example.org, allNodes: true, pool: {name: a}}`,
				"x |  | gpu.example.org | a | 90m",
			},
		},
	)
}
