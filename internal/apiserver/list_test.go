package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestQueriesThatCannotBeServedGetUpstreamsTexts(t *testing.T) {
	d := openDoor(t, nil)
	d.create("a", "")
	for _, c := range []struct{ query, want string }{
		{"resourceVersion=abc", `400 BadRequest invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"resourceVersion=-5", `400 BadRequest invalid resource version: resourceVersion: Invalid value: "-5": strconv.ParseUint: `},
		{"resourceVersion=99999999999999999999", `400 BadRequest invalid resource version: `},
		{"timeoutSeconds=abc", `400 BadRequest strconv.ParseInt: parsing "abc": invalid syntax`},
		{"timeout=abc", `400 BadRequest invalid timeout specified in the request URL - time: invalid duration "abc"`},
		{"limit=x", `400 BadRequest strconv.ParseInt: parsing "x": invalid syntax`},
		{"labelSelector=!!", "400 BadRequest unable to parse requirement: found '!', expected: identifier"},
		{"labelSelector=a%3D%3Db%3D%3Dc", "400 BadRequest "},
		{"fieldSelector=spec.a%3D1", "400 BadRequest field label not supported: spec.a"},
		{"fieldSelector=x", "400 BadRequest "},
		{"continue=%25%25", "400 BadRequest invalid continue token: continue key is not valid: "},
		{"continue=e30", "400 BadRequest invalid continue token: continue key is not valid: server does not recognize this encoded version "},
		{"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0", "400 BadRequest invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"},
		{"resourceVersionMatch=Exact", `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		{"resourceVersion=0&resourceVersionMatch=Exact", `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"resourceVersion=1&resourceVersionMatch=Bogus", `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""`},
		{"sendInitialEvents=true", `422 Invalid ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},
		{"watch=1&resourceVersion=abc", `400 BadRequest invalid resource version: `},
		{"watch=1&labelSelector=!!", "400 BadRequest unable to parse requirement: "},
		{"watch=1&fieldSelector=spec.a%3D1", "400 BadRequest field label not supported: spec.a"},
		{"watch=1&timeoutSeconds=abc", `400 BadRequest strconv.ParseInt: parsing "abc": invalid syntax`},
		{"watch=1&sendInitialEvents=1", `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{"watch=1&resourceVersion=5&resourceVersionMatch=NotOlderThan", `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`},
	} {
		t.Run(c.query, func(t *testing.T) {
			for _, accept := range []string{acceptJSON, acceptTable} {
				a := d.do("GET", configMaps+"?"+c.query, "", accept)
				s := tree(t, a.body)
				if got := fmt.Sprintf("%d %v %v", a.StatusCode, s["reason"], s["message"]); !strings.HasPrefix(got, c.want) {
					t.Errorf("%s\nwant %s", got, c.want)
				}
			}
		})
	}
	for _, query := range []string{"resourceVersion=abc", "export=true"} {
		if a := d.do("GET", configMaps+"/a?"+query, ""); a.StatusCode != http.StatusBadRequest {
			t.Errorf("get with %s: %d %s", query, a.StatusCode, a.body)
		}
	}
}

func TestListsPageThroughEverything(t *testing.T) {
	d := openDoor(t, nil)
	for i := range 5 {
		d.create(fmt.Sprintf("cm-%d", i), "")
	}
	var got []string
	next := ""
	for range 5 {
		list := tree(t, d.do("GET", configMaps+"?limit=2&continue="+next, "").body)
		for _, item := range list["items"].([]any) {
			got = append(got, at(item, "metadata", "name").(string))
		}
		next, _ = at(list, "metadata", "continue").(string)
		if left := at(list, "metadata", "remainingItemCount"); next != "" && left != float64(5-len(got)) {
			t.Errorf("remainingItemCount %v after %d", left, len(got))
		}
		if next == "" {
			break
		}
	}
	if want := "cm-0 cm-1 cm-2 cm-3 cm-4"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestItemsOfAListAreTheObjectsBytes(t *testing.T) {
	d := openDoor(t, nil)
	d.create("a", "")
	for _, client := range []*http.Client{d.h1, d.h2} {
		one := strings.TrimSuffix(d.by(client, "GET", configMaps+"/a", "").body, "\n")
		list := d.by(client, "GET", configMaps, "").body
		want := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"` + rvOf(t, list) + `"},"items":[` + one + "]}\n"
		if list != want {
			t.Errorf("%s\nwant %s", list, want)
		}
		if !strings.Contains(list, `"a":"<&>"`) {
			t.Errorf("the bytes were encoded again: %s", list)
		}
	}
}

func TestDeleteCollectionAnswersWhatItDeleted(t *testing.T) {
	d := openDoor(t, nil)
	d.create("a", `"x":"1"`)
	d.create("b", `"x":"2"`)
	a := d.do("DELETE", configMaps+"?labelSelector=x%3D1", "")
	list := tree(t, a.body)
	items, _ := list["items"].([]any)
	if a.StatusCode != http.StatusOK || list["kind"] != "ConfigMapList" || len(items) != 1 || at(items[0], "metadata", "name") != "a" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", configMaps+"/b", ""); a.StatusCode != http.StatusOK {
		t.Errorf("b: %d", a.StatusCode)
	}
	if a := d.do("DELETE", configMaps+"?fieldSelector=spec.a%3D1", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
