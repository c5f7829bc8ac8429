package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

// options parses a query, in which T stands for a token at 1000000032 and L for
// one at the latest revision.
func options(t *testing.T, raw string) wire.ListOptions {
	t.Helper()
	q := query(t, raw)
	switch q.Get("continue") {
	case "T":
		q.Set("continue", wire.EncodeContinue(1000000032, "ns/p1\x00"))
	case "L":
		q.Set("continue", wire.EncodeContinue(-1, "p1\x00"))
	}
	o, err := wire.ParseListOptions(q, false)
	if err != nil {
		t.Fatalf("parse list options: %v", err)
	}
	return o
}

func TestPlanListFollowsTheTable(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		want  wire.ListPlan
	}{
		"unset, RV unset":             {"", wire.ListPlan{Mode: wire.ListMostRecent}},
		"unset, RV 0":                 {"resourceVersion=0", wire.ListPlan{Mode: wire.ListAny}},
		"unset, RV N":                 {"resourceVersion=7", wire.ListPlan{Mode: wire.ListNotOlderThan, RV: 7}},
		"unset, limit, RV unset":      {"limit=5", wire.ListPlan{Mode: wire.ListMostRecent, Limit: 5}},
		"unset, limit, RV 0":          {"limit=5&resourceVersion=0", wire.ListPlan{Mode: wire.ListAny}},
		"unset, limit, RV N":          {"limit=5&resourceVersion=7", wire.ListPlan{Mode: wire.ListExact, RV: 7, Limit: 5}},
		"unset, negative limit, RV N": {"limit=-5&resourceVersion=7", wire.ListPlan{Mode: wire.ListNotOlderThan, RV: 7}},
		"continue, RV unset": {
			"continue=T", wire.ListPlan{Mode: wire.ListContinue, RV: 1000000032, Start: "ns/p1\x00"},
		},
		"continue, limit, RV unset": {
			"limit=5&continue=T", wire.ListPlan{Mode: wire.ListContinue, RV: 1000000032, Start: "ns/p1\x00", Limit: 5},
		},
		"continue, limit, RV 0": {
			"limit=5&continue=T&resourceVersion=0",
			wire.ListPlan{Mode: wire.ListContinue, RV: 1000000032, Start: "ns/p1\x00", Limit: 5},
		},
		"continue at latest": {
			"limit=5&continue=L", wire.ListPlan{Mode: wire.ListContinueLatest, Start: "p1\x00", Limit: 5},
		},
		"Exact, RV N": {
			"resourceVersionMatch=Exact&resourceVersion=7", wire.ListPlan{Mode: wire.ListExact, RV: 7},
		},
		"Exact, limit, RV N": {
			"resourceVersionMatch=Exact&resourceVersion=7&limit=5", wire.ListPlan{Mode: wire.ListExact, RV: 7, Limit: 5},
		},
		"NotOlderThan, RV 0": {
			"resourceVersionMatch=NotOlderThan&resourceVersion=0", wire.ListPlan{Mode: wire.ListAny},
		},
		"NotOlderThan, limit, RV 0": {
			"resourceVersionMatch=NotOlderThan&resourceVersion=0&limit=5", wire.ListPlan{Mode: wire.ListAny},
		},
		"NotOlderThan, RV N": {
			"resourceVersionMatch=NotOlderThan&resourceVersion=7", wire.ListPlan{Mode: wire.ListNotOlderThan, RV: 7},
		},
		"NotOlderThan, limit, RV N": {
			"resourceVersionMatch=NotOlderThan&resourceVersion=7&limit=5",
			wire.ListPlan{Mode: wire.ListNotOlderThan, RV: 7, Limit: 5},
		},
		"RV 0 written with more zeros": {"resourceVersion=00&limit=5", wire.ListPlan{Mode: wire.ListAny}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.PlanList(options(t, tt.query))
			if err != nil {
				t.Fatalf("plan list: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Parts of the texts of 422.
const (
	invalid      = `422 Invalid: ListOptions.meta.k8s.io "" is invalid: `
	unlessRV     = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
	withContinue = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
	exactZero    = `resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`
	bogus        = `resourceVersionMatch: Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""`
	needsMatch   = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	unlessSend   = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless " +
		"sendInitialEvents is provided"
)

func TestPlanListRefusesWhatTheTableRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ query, want string }{
		"continue, RV N": {
			"continue=T&resourceVersion=7", "400 BadRequest: specifying resource version is not allowed when using continue",
		},
		"continue at latest, RV N": {
			"continue=L&resourceVersion=7", "400 BadRequest: specifying resource version is not allowed when using continue",
		},
		"continue, no token": {
			"continue=!",
			"400 BadRequest: invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
		},
		"Exact, RV unset":            {"resourceVersionMatch=Exact", invalid + unlessRV},
		"Exact, limit, RV unset":     {"resourceVersionMatch=Exact&limit=1", invalid + unlessRV},
		"Exact, RV 0":                {"resourceVersionMatch=Exact&resourceVersion=0", invalid + exactZero},
		"Exact, limit, RV 0":         {"resourceVersionMatch=Exact&resourceVersion=0&limit=1", invalid + exactZero},
		"NotOlderThan, RV unset":     {"resourceVersionMatch=NotOlderThan", invalid + unlessRV},
		"NotOlderThan, limit, unset": {"resourceVersionMatch=NotOlderThan&limit=1", invalid + unlessRV},
		"NotOlderThan, continue":     {"resourceVersionMatch=NotOlderThan&resourceVersion=7&continue=T", invalid + withContinue},
		"Exact, continue":            {"resourceVersionMatch=Exact&resourceVersion=7&continue=T", invalid + withContinue},
		"match, continue, RV unset": {
			"resourceVersionMatch=Exact&continue=T", invalid + "[" + unlessRV + ", " + withContinue + "]",
		},
		"other text": {"resourceVersionMatch=Bogus&resourceVersion=7", invalid + bogus},
		"sendInitialEvents": {
			"sendInitialEvents=true", invalid + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
		},
		"delta": {
			"gaplessDelta=true&resourceVersion=7", invalid + "gaplessDelta: Forbidden: gaplessDelta is forbidden for list",
		},
		"sendInitialEvents false": {
			"sendInitialEvents=false", invalid + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := wire.PlanList(options(t, tt.query))
			if diff := cmp.Diff(tt.want, statusText(err)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", plan, diff)
			}
		})
	}
}

func TestInvalidOptionsBody(t *testing.T) {
	for query, want := range map[string]string{
		"resourceVersionMatch=Exact": `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
			`"message":"ListOptions.meta.k8s.io \"\" is invalid: ` +
			`resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",` +
			`"reason":"Invalid","details":{"group":"meta.k8s.io",` +
			`"kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is ` +
			`forbidden unless resourceVersion is provided",` +
			`"field":"resourceVersionMatch"}]},"code":422}`,
		"resourceVersion=7&resourceVersionMatch=Bogus": `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
			`"message":"ListOptions.meta.k8s.io \"\" is invalid: ` +
			`resourceVersionMatch: Unsupported value: \"Bogus\": supported values: \"Exact\", \"NotOlderThan\", \"\"",` +
			`"reason":"Invalid","details":{"group":"meta.k8s.io",` +
			`"kind":"ListOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \"Bogus\": ` +
			`supported values: \"Exact\", \"NotOlderThan\", \"\"",` +
			`"field":"resourceVersionMatch"}]},"code":422}`,
	} {
		_, err := wire.PlanList(options(t, query))
		got, jsonErr := json.Marshal(wire.StatusOf(err))
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestPlanWatchFollowsTheTable(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		want  wire.WatchPlan
	}{
		"nil, RV unset": {"", wire.WatchPlan{Start: wire.WatchInitialConsistent}},
		"nil, RV 0":     {"resourceVersion=0", wire.WatchPlan{Start: wire.WatchInitialAny}},
		"nil, RV N":     {"resourceVersion=7", wire.WatchPlan{Start: wire.WatchAfter, RV: 7}},
		// The defaulting rule: a plain watch gets the end bookmark although it did not request it.
		"nil, RV unset, bookmarks": {
			"allowWatchBookmarks=1", wire.WatchPlan{Start: wire.WatchInitialConsistent, EndBookmark: true, Bookmarks: true},
		},
		"nil, RV 0, bookmarks": {
			"resourceVersion=0&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialAny, EndBookmark: true, Bookmarks: true},
		},
		"nil, RV N, bookmarks": {
			"resourceVersion=7&allowWatchBookmarks=1", wire.WatchPlan{Start: wire.WatchAfter, RV: 7, Bookmarks: true},
		},
		"true, RV unset": {
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialConsistent, EndBookmark: true, Bookmarks: true},
		},
		"true, RV 0": {
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
			wire.WatchPlan{Start: wire.WatchInitialAny},
		},
		"true, RV N": {
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7",
			wire.WatchPlan{Start: wire.WatchInitialNotOlderThan, RV: 7},
		},
		"true, RV N, bookmarks": {
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialNotOlderThan, RV: 7, EndBookmark: true, Bookmarks: true},
		},
		"false, RV unset": {
			"sendInitialEvents=false&resourceVersionMatch=NotOlderThan", wire.WatchPlan{Start: wire.WatchFromNow},
		},
		"false, RV 0": {
			"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
			wire.WatchPlan{Start: wire.WatchFromCache},
		},
		"false, RV N, bookmarks": {
			"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchAfter, RV: 7, Bookmarks: true},
		},
		"limit, continue, RV N": {"resourceVersion=7&limit=5&continue=T", wire.WatchPlan{Start: wire.WatchAfter, RV: 7}},
		"bookmark interval": {
			"resourceVersion=7&bookmarkIntervalSeconds=3600", wire.WatchPlan{Start: wire.WatchAfter, RV: 7},
		},
		"delta, RV unset": {
			"gaplessDelta=1&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialConsistent, EndBookmark: true, Bookmarks: true},
		},
		"delta, RV 0": {
			"gaplessDelta=1&resourceVersion=0&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialAny, EndBookmark: true, Bookmarks: true},
		},
		"delta, RV N": {
			"gaplessDelta=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7&allowWatchBookmarks=1",
			wire.WatchPlan{Start: wire.WatchInitialNotOlderThan, RV: 7, EndBookmark: true, Bookmarks: true, Delta: true},
		},
		"limit, unset": {"limit=5", wire.WatchPlan{Start: wire.WatchInitialConsistent}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.PlanWatch(options(t, "watch=1&"+tt.query))
			if err != nil {
				t.Fatalf("plan watch: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanWatchRefusesWhatTheTableRefuses(t *testing.T) {
	onlyNotOlder := func(match string) string {
		return `resourceVersionMatch: Unsupported value: "` + match + `": supported values: "NotOlderThan"`
	}
	for name, tt := range map[string]struct{ query, want string }{
		"true, no match":       {"sendInitialEvents=true", invalid + needsMatch},
		"true, no match, RV N": {"sendInitialEvents=true&resourceVersion=7", invalid + needsMatch},
		"false, no match":      {"sendInitialEvents=false", invalid + needsMatch},
		"match, nil":           {"resourceVersionMatch=NotOlderThan&resourceVersion=7", invalid + unlessSend},
		"match, nil, RV unset": {"resourceVersionMatch=NotOlderThan", invalid + unlessSend},
		"Exact, nil": {
			"resourceVersionMatch=Exact&resourceVersion=7", invalid + "[" + unlessSend + ", " + onlyNotOlder("Exact") + "]",
		},
		"Exact, true": {
			"sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=7",
			invalid + "[" + needsMatch + ", " + onlyNotOlder("Exact") + "]",
		},
		"Bogus, true": {
			"sendInitialEvents=true&resourceVersionMatch=Bogus", invalid + "[" + needsMatch + ", " + onlyNotOlder("Bogus") + "]",
		},
		"continue, RV unset": {"continue=nonsense", invalid + withContinue},
		"interval 0": {
			"bookmarkIntervalSeconds=0", invalid + "bookmarkIntervalSeconds: Invalid value: 0: must be between 1 and 3600",
		},
		"interval 3601, RV N": {
			"resourceVersion=7&bookmarkIntervalSeconds=3601",
			invalid + "bookmarkIntervalSeconds: Invalid value: 3601: must be between 1 and 3600",
		},
		"delta, nil, RV N": {
			"gaplessDelta=1&resourceVersion=7&allowWatchBookmarks=1",
			invalid + "gaplessDelta: Forbidden: gaplessDelta requires sendInitialEvents=true",
		},
		"delta, false": {
			"gaplessDelta=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7&allowWatchBookmarks=1",
			invalid + "gaplessDelta: Forbidden: gaplessDelta requires sendInitialEvents=true",
		},
		"delta, no bookmarks": {
			"gaplessDelta=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7",
			invalid + "gaplessDelta: Forbidden: gaplessDelta requires allowWatchBookmarks=true",
		},
		"continue, RV 0":     {"resourceVersion=0&continue=T", invalid + withContinue},
		"match and continue": {"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=T", invalid + withContinue},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := wire.PlanWatch(options(t, "watch=1&"+tt.query))
			if diff := cmp.Diff(tt.want, statusText(err)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", plan, diff)
			}
		})
	}
}
