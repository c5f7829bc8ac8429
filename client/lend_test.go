package client_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLentBytesAreValidUntilTheNextCall(t *testing.T) {
	const n = 2000 // more than any buffer holds
	var list, frames strings.Builder
	var want []string
	for k := range n {
		want = append(want, fmt.Sprintf(`{"metadata":{"name":"n%d","x":%q}}`, k, strings.Repeat("y", k%90)))
		if k%2 == 0 {
			fmt.Fprintf(&frames, "{\"type\":\"ADDED\",\"object\":%s}\n", want[k])
		} else {
			fmt.Fprintf(&frames, "{\"object\":%s,\"type\":\"MODIFIED\"}\n", want[k])
		}
	}
	fmt.Fprintf(&list, `{"metadata":{"resourceVersion":"7"},"items":[%s]}`, strings.Join(want, ","))

	var items []string
	meta, err := serve(t, jsonAnswer(list.String()), false).ListLent(t.Context(), pods(""), metav1.ListOptions{}, collect(&items))
	if err != nil || meta.ResourceVersion != "7" || len(items) != n {
		t.Fatalf("%d items, %+v, %v", len(items), meta, err)
	}
	w, err := serve(t, jsonAnswer(frames.String()), false).Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	w.Lend()
	for k := range n {
		f, err := w.Next()
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
		if items[k] != want[k] || string(f.Object) != want[k] {
			t.Fatalf("item %d is %s, frame %s", k, items[k], f.Object)
		}
	}
}
