package apiregistration_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/apiregistration"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestAPIServiceRows(t *testing.T) {
	const remote = `{spec: {service: {namespace: a, name: b}}, status: {conditions: [`
	tabletest.Check(
		t,
		tabletest.Of(apiregistration.Kinds(), "apiservices.apiregistration.k8s.io"),
		"Name | Service | Available | Age",
		[]tabletest.Case{
			{"local", `{status: {conditions: [{type: Available, status: "True", reason: Local}]}}`, "x | Local | True | 90m"},
			{"not checked yet", remote + `]}}`, "x | a/b | Unknown | 90m"},
			{
				"not available", remote + `{type: Available, status: "False", reason: MissingEndpoints}]}}`,
				"x | a/b | False (MissingEndpoints) | 90m",
			},
			{"without a reason", remote + `{type: Available, status: "False"}]}}`, "x | a/b | False | 90m"},
		},
	)
}
