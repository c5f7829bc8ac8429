package builtin_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	ours "github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

const kindsPage, unservedBegin, unservedEnd = "../../docs/kinds.md", "<!-- not served -->", "<!-- /not served -->"

// TestEveryPathOfUpstreamIsServedOrSaysWhy asks for each path and method of upstream's OpenAPI document, in the versions
// that are on by default. A path is a verb on a resource, or the answer says why it is none; docs/kinds.md has the list.
func TestEveryPathOfUpstreamIsServedOrSaysWhy(t *testing.T) {
	catalog := ours.Catalog()
	paths, _ := upstreamSwagger(t)
	served, refused := 0, map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			if method == "parameters" || !ofStable(path) {
				continue
			}
			what, why := answered(t, catalog, strings.ToUpper(method), path)
			switch {
			case what == "":
				served++
			case why == "":
				t.Errorf("%s %s is not served, and nothing says why", method, path)
			case refused[what] != "" && refused[what] != why:
				t.Errorf("%s is not served because %s, and because %s", what, refused[what], why)
			default:
				refused[what] = why
			}
		}
	}
	if served < 700 || len(refused) == 0 {
		t.Errorf("%d methods are served, %d things are not", served, len(refused))
	}
	table := "| not served | the answer's reason |\n|---|---|\n"
	for _, what := range slices.Sorted(maps.Keys(refused)) {
		table += fmt.Sprintf("| `%s` | %s |\n", what, refused[what])
	}
	documentedIn(t, kindsPage, unservedBegin, unservedEnd, strings.TrimSpace(table))
}

// ofStable reports whether a path is of a resource in a version that is on by default.
func ofStable(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		return true
	case parts[0] == "apis" && len(parts) > 3:
		return stable.MatchString(parts[2])
	}
	return false
}

// answered returns what is not served of a path, and why; nothing if it is.
func answered(t *testing.T, catalog *kinds.Catalog, method, path string) (what, why string) {
	t.Helper()
	name := strings.NewReplacer("{", "", "}", "").Replace(path)
	rt, err := route.Resolve(catalog, httptest.NewRequestWithContext(t.Context(), method, name, http.NoBody))
	if err == nil && rt.Resource != nil {
		return "", ""
	}
	if err != nil {
		return path, ""
	}
	refusal, is := errors.AsType[*wire.StatusError](route.NotServed(catalog, rt.Path))
	if !is {
		t.Fatalf("%s: no Status", path)
	}
	const is404 = "the server could not find the requested resource: "
	message := strings.TrimPrefix(refusal.ErrStatus.Message, is404)
	for _, sentence := range []string{" is not served in v1: ", " is not served: "} {
		if what, why, found := strings.Cut(message, sentence); found {
			return what, why
		}
	}
	return message, ""
}
