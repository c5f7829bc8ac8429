package builtin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/conformance/builtin"
)

const known = `Pod | create | looser | spec.a | FieldValueInvalid
Pod | update | stricter | spec.b | FieldValueForbidden | meant
Service | create | different | spec.c | only upstream
`

func parse(t *testing.T, text string) builtin.Table {
	t.Helper()
	table, err := builtin.ParseTable(text)
	if err != nil {
		t.Fatalf("parse table: %v", err)
	}
	return table
}

func lines(all []builtin.Finding) []string {
	var text []string
	for _, f := range all {
		text = append(text, f.String())
	}
	return text
}

// TestTableIsEnforcedInBothDirections: a finding that is not in the table is missing, one
// of a kind that was played and is not found is stale, and -update mends both.
func TestTableIsEnforcedInBothDirections(t *testing.T) {
	meant := builtin.Finding{
		Kind: "Pod", Write: builtin.Update, Class: builtin.Stricter, Field: "spec.b", Why: "FieldValueForbidden",
	}
	fresh := builtin.Finding{Kind: "Pod", Write: builtin.Create, Class: builtin.Looser, Field: "spec.d", Why: "FieldValueInvalid"}
	found := map[builtin.Finding]bool{meant: true, fresh: true}
	played := map[string]bool{"Pod": true}
	table := parse(t, known)
	if diff := cmp.Diff([]string{fresh.String()}, lines(table.Missing(found))); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Pod | create | looser | spec.a | FieldValueInvalid"},
		lines(table.Stale(found, played))); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
	next := parse(t, table.With(found, played).String())
	if left := append(next.Missing(found), next.Stale(found, played)...); len(left) > 0 {
		t.Errorf("after an update: %v", left)
	}
	if !next.Stays(meant) || next.Stays(fresh) {
		t.Errorf("the update has changed the reasons:\n%s", next)
	}
	if !strings.Contains(next.String(), "Service | create") {
		t.Errorf("the update has removed a kind that was not played:\n%s", next)
	}
}

func TestMalformedTablesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"too few columns": "Pod | create | looser | spec.a",
		"no class":        "Pod | create | worse | spec.a | why",
		"twice":           "Pod | create | looser | spec.a | why\nPod | create | looser | spec.a | why | reason",
	} {
		if _, err := builtin.ParseTable(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
