package table_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOtherKindsHaveNameAndAge(t *testing.T) {
	tabletest.Check(t, table.Default(), "Name | Age", []tabletest.Case{
		{"created", ``, "x | 90m"},
		{"not created", `metadata: {creationTimestamp: null}`, "x | <unknown>"},
		{"created in the future", `metadata: {creationTimestamp: "2030-01-01T00:00:00Z"}`, "x | <invalid>"},
	})
}
