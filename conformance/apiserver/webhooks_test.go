package apiserver_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// answering are the behaviours of validating webhooks that the script answers plays. Each is asked
// about objects with its name as the label w.
var answering = []string{
	"allow", "deny", "denycode", "denyreason", "denysilently", "deny200", "denydetails", "denypatch", "warn", "warndeny",
	"annotate",
	"500", "404", "redirect", "garbage", "empty", "array", "noresponse", "uid", "kind", "version", "nokind", "slow", "addx",
}

// mutatingOnes are those of mutating webhooks in the script patches.
func mutatingOnes() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq([]string{
		"allow", "deny", "denypatch", "nopatchtype", "otherpatchtype", "emptypatch", "onlypatchtype", "garbage", "500", "warn",
	}, maps.Keys(patches()))))
}

// webhooks are the webhooks of a configuration in JSON, each asked about ConfigMaps with its own
// label, and last the marker, which refuses: when it does, the configuration is in force.
func (h *hook) webhooks(t *testing.T, kind, failurePolicy string, behaviours []string) string {
	t.Helper()
	one := func(name, at string) map[string]any {
		return map[string]any{
			"name":         name + ".example.com",
			"clientConfig": map[string]any{"url": h.URL + at, "caBundle": h.ca()},
			"rules": []any{map[string]any{
				"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "resources": []string{"configmaps"},
				"operations": []string{"CREATE"},
			}},
			"objectSelector": map[string]any{"matchLabels": map[string]any{"w": name}},
			"sideEffects":    "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": failurePolicy,
			"timeoutSeconds": 10,
		}
	}
	var all []any
	for _, b := range behaviours {
		name := kind
		if failurePolicy == "Ignore" {
			name += "open"
		}
		w := one(name+"-"+b, "/"+name+"/"+b)
		if b == "slow" {
			w["timeoutSeconds"] = 1
		}
		all = append(all, w)
	}
	down := one(strings.ToLower(kind+strings.TrimPrefix(failurePolicy, "Fail"))+"-down", "")
	down["clientConfig"] = map[string]any{"url": "https://127.0.0.1:1/x"}
	foreign := one(strings.ToLower(kind+strings.TrimPrefix(failurePolicy, "Fail"))+"-foreign", "")
	foreign["clientConfig"] = map[string]any{"url": h.URL + "/quiet/foreign"} // its certificate is of no known authority
	all = append(all, down, foreign, one("marker", "/quiet/deny"))
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return string(raw)
}
