package gokind_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
)

// items are n environment variables, ports, … from a number on.
func items(from, n int) []any {
	var all []any
	for i := range n {
		all = append(all, map[string]any{"name": fmt.Sprintf("n-%06d", from+i)})
	}
	return all
}

func finalizers(n int) []any {
	var all []any
	for i := range n {
		all = append(all, fmt.Sprintf("example.com/f-%06d", i))
	}
	return all
}

// container is a pod, or a patch of one, with one container that has these members.
func container(members map[string]any) map[string]any {
	members["name"] = "a"
	return map[string]any{"spec": map[string]any{"containers": []any{members}}}
}

func metadata(members map[string]any) map[string]any { return map[string]any{"metadata": members} }

type members = map[string]any

// What the library does takes time with the square of these lists, and cannot be ended.
func TestStrategicMergesOfLongListsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const few, many = 800, 4000
	for name, c := range map[string]func(n int) (object, patch map[string]any){
		"a list into one item": func(n int) (object, patch map[string]any) {
			return container(members{"env": items(0, 1)}), container(members{"env": items(0, n)})
		},
		"one item into a list": func(n int) (object, patch map[string]any) {
			return container(members{"env": items(0, n)}), container(members{"env": items(0, 1)})
		},
		"an order three times as long as the list": func(n int) (object, patch map[string]any) {
			return container(members{}), container(members{
				"env": items(0, n), "$setElementOrder/env": append(items(n, 2*n), items(0, n)...),
			})
		},
		"an order without items": func(n int) (object, patch map[string]any) {
			return container(members{"env": items(0, n/2)}), container(members{"$setElementOrder/env": items(n, 3*n)})
		},
		"deletions": func(n int) (object, patch map[string]any) {
			deleted := items(0, n)
			for _, item := range deleted {
				item.(map[string]any)["$patch"] = "delete"
			}
			return container(members{"env": items(n, n/2)}), container(members{"env": deleted})
		},
		"a replacement": func(n int) (object, patch map[string]any) {
			return container(members{"env": items(0, 1)}), container(members{
				"env": append(items(0, n), map[string]any{"$patch": "replace"}),
			})
		},
		"deletions of the kind for strings": func(n int) (object, patch map[string]any) {
			return container(members{"env": items(0, n)}), container(members{"$deleteFromPrimitiveList/env": items(0, n)})
		},
		"strings": func(n int) (object, patch map[string]any) {
			return metadata(members{"finalizers": []any{"a"}}), metadata(members{"finalizers": finalizers(n)})
		},
		"an order of strings": func(n int) (object, patch map[string]any) {
			order := finalizers(n)
			slices.Reverse(order)
			return metadata(members{"finalizers": finalizers(n)}), metadata(members{"$setElementOrder/finalizers": order})
		},
		"an item that stands many times, each with a list": func(n int) (object, patch map[string]any) {
			var same []any
			for i := range n / 200 {
				same = append(same, map[string]any{"name": "a", "env": items(200*i, 200)})
			}
			return container(members{}), map[string]any{"spec": map[string]any{"containers": same}}
		},
	} {
		pods := builtintest.Resource(t, "", "v1", "pods")
		merge := func(n int) error {
			object, patch := c(n)
			_, err := pods.Type.StrategicMerge(text(t, object), text(t, patch))
			return err
		}
		if err := merge(few); err != nil {
			t.Errorf("%s: %d items: %v", name, few, err)
		}
		wantStatus(t, merge(many), http.StatusRequestEntityTooLarge, "send a JSON patch or a merge patch")
	}
}

// What the library does with these grows with their size.
func TestStrategicMergesThatReplaceListsAreNotBounded(t *testing.T) {
	const many = 20_000
	var rules []any
	for i := range many {
		rules = append(rules, map[string]any{"verbs": []any{"get"}, "nonResourceURLs": []any{fmt.Sprintf("/%d", i)}})
	}
	for name, c := range map[string]struct {
		group, version, plural string
		object, patch          map[string]any
	}{
		"a list that is replaced": {
			"rbac.authorization.k8s.io", "v1", "clusterroles", members{"rules": rules[:many/2]}, members{"rules": rules},
		},
		"a list of a new item": {
			"", "v1", "pods", container(members{}),
			map[string]any{"spec": members{"containers": []any{members{"name": "b", "env": items(0, many)}}}},
		},
		"a list where there is none": {"", "v1", "pods", container(members{}), container(members{"env": items(0, many)})},
	} {
		if _, err := builtintest.Resource(t, c.group, c.version, c.plural).Type.StrategicMerge(text(t, c.object),
			text(t, c.patch)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
