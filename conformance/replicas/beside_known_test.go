package replicas_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/kinds"
)

// findings are the known differences of validation that conformance/builtin lists and counts: kind, field and reason of
// a cause, with the positions in lists left out.
type findings map[string]bool

func knownFindings(t *testing.T) findings {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "conformance/builtin/testdata/differences.txt"))
	if err != nil {
		t.Fatalf("read the known differences of validation: %v", err)
	}
	known := findings{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSpace(line), " | ")
		if len(parts) < 5 || strings.HasPrefix(line, "#") {
			continue
		}
		kind, _, _ := strings.Cut(parts[0], ".")
		_, reason, more := strings.Cut(parts[4], ": ")
		if !more {
			reason = parts[4]
		}
		known[kind+" "+parts[3]+" "+reason] = true
	}
	return known
}

// excuses reports whether two answers differ in nothing but causes that only one of both servers finds, and that are
// known, or in that kube-apiserver answers a request that is wrong with 500.
func (f findings) excuses(view *kinds.Resource, mixed, plain reply) bool {
	if plain.code == http.StatusInternalServerError && mixed.code/100 == 4 {
		return true // the request is at fault: docs/differences.md
	}
	ours, theirs := causesOf(mixed), causesOf(plain)
	if len(ours) == 0 && len(theirs) == 0 {
		return false
	}
	for _, pair := range [][2]map[string]bool{{ours, theirs}, {theirs, ours}} {
		for cause := range pair[0] {
			if !pair[1][cause] && !f[view.Kind+" "+cause] {
				return false
			}
		}
	}
	for _, r := range []reply{mixed, plain} {
		if r.code/100 != 2 && r.code != http.StatusUnprocessableEntity {
			return false
		}
	}
	return mixed.code != plain.code || fmt.Sprint(ours) != fmt.Sprint(theirs)
}

// position is an index of a list, or a key of a map.
var position = regexp.MustCompile(`\[[^\]]*\]`)

// causesOf are the fields and reasons of a refusal.
func causesOf(r reply) map[string]bool {
	status, err := tree(r.text)
	if err != nil || status["kind"] != "Status" {
		return nil
	}
	details, _ := status["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	all := map[string]bool{}
	for _, one := range list {
		one, _ := one.(map[string]any)
		field, _ := one["field"].(string)
		all[position.ReplaceAllString(field, "[*]")+" "+fmt.Sprint(one["reason"])] = true
	}
	return all
}
