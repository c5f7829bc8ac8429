package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/examples/internal/rigtest"
)

type world struct {
	*rigtest.Rig
	t *testing.T
}

func (w world) pod(name, node string) {
	w.t.Helper()
	w.Create(w.Objects("", "v1", "pods").Namespace("default"), map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "c", "image": "i"}}},
	})
}

func (w world) remove(name string) {
	w.t.Helper()
	grace := int64(0)
	err := w.Objects("", "v1", "pods").Namespace("default").Delete(w.t.Context(), name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace,
	})
	if err != nil {
		w.t.Fatalf("delete namespace: %v", err)
	}
}

// merge patches an object of the core group.
func (w world) merge(resource, name, patch string, subresources ...string) {
	w.t.Helper()
	in := w.Objects("", "v1", resource).Namespace("default")
	objects := in
	if resource == "nodes" {
		objects = w.Objects("", "v1", resource)
	}
	if _, err := objects.Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...); err != nil {
		w.t.Fatalf("patch objects: %v", err)
	}
}

// labelled waits until the nodes' labels are as wanted.
func (w world) labelled(want map[string]string) {
	w.t.Helper()
	w.Eventually(func() string {
		list, err := w.Objects("", "v1", "nodes").List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		got := map[string]string{}
		for _, node := range list.Items {
			got[node.GetName()] = node.GetLabels()[label]
		}
		return cmp.Diff(want, got)
	})
}

// written checks that the controller made exactly so many changes, and did not try
// without end.
func (w world) written(want int) {
	w.t.Helper()
	writes := w.Writes()
	done := 0
	for _, write := range writes {
		if write.Code == http.StatusOK {
			done++
		}
	}
	if done != want || len(writes) > want+10 {
		w.t.Errorf("%d writes of %d attempts, want %d: %+v", done, len(writes), want, writes)
	}
}

func TestNodesAreLabelledUnderFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 7 s")
	}
	w := world{rigtest.New(t), t}
	for _, node := range []string{"a", "b", "quiet"} {
		w.Create(w.Objects("", "v1", "nodes"), map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node},
		})
	}
	w.pod("first", "a")
	w.pod("second", "a")
	w.pod("unscheduled", "")
	stop := w.Run(func(ctx context.Context, cfg *rest.Config) error {
		return control(ctx, cfg, slog.New(slog.DiscardHandler))
	})
	w.labelled(map[string]string{"a": "2", "b": "0", "quiet": "0"})
	w.written(3)

	w.merge("pods", "second", `{"status":{"phase":"Succeeded"}}`, "status")
	w.labelled(map[string]string{"a": "1", "b": "0", "quiet": "0"})
	w.written(1) // finished pods do not count
	w.merge("nodes", "b", `{"metadata":{"labels":{"gapless.io/pods":"99"}}}`)
	w.labelled(map[string]string{"a": "1", "b": "0", "quiet": "0"})
	w.written(1) // the edit of another writer is reverted

	// Each step brings a pod to b and takes the one of the step before away.
	w.pod("step-0", "b")
	w.labelled(map[string]string{"a": "1", "b": "1", "quiet": "0"})
	w.written(1)
	nodes := []string{"b", "a"}
	var conflicts atomic.Int64
	for n, c := range []struct {
		name  string
		under func(step func())
	}{
		{"nothing", func(step func()) { step() }},
		{"cut connections", func(step func()) { w.Cut(); step(); w.Cut() }},
		{"410 Gone", w.Away},
		{"a restart of the server", func(step func()) { step(); w.Restart() }},
		{"writes that are lost", func(step func()) { w.Before(rigtest.Lost(4)); step() }},
		{"conflicts", func(step func()) {
			w.Before(func(r *http.Request) error {
				if conflicts.Add(1) <= 2 { // another writer was faster
					name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, conflicts.Load())
					_, err := w.Objects("", "v1", "nodes").Patch(r.Context(), name, types.MergePatchType, patch,
						metav1.PatchOptions{})
					return err
				}
				return nil
			})
			step()
		}},
	} {
		to, begin := nodes[(n+1)%2], time.Now()
		c.under(func() {
			w.remove(fmt.Sprint("step-", n))
			w.pod(fmt.Sprint("step-", n+1), to)
		})
		counts := map[string]string{"a": "1", "b": "0", "quiet": "0"}
		if to == "a" {
			counts["a"] = "2"
		} else {
			counts["b"] = "1"
		}
		w.labelled(counts)
		writes := w.Writes()
		done, refused := 0, 0
		for _, write := range writes {
			switch write.Code {
			case http.StatusOK:
				done++
			case http.StatusConflict:
				refused++
			}
		}
		// An answer may be cut off after the write, and a count between two be seen.
		if done > 3 || len(writes) > 10+2*rigtest.Retries(time.Since(begin)) {
			t.Errorf("after %s: %d writes of %d attempts for 2 changes: %+v", c.name, done, len(writes), writes)
		}
		if c.name == "conflicts" && refused == 0 {
			t.Errorf("no conflict: %+v", writes)
		}
		w.Before(nil)
	}

	// Irrelevant changes cause no write.
	for n := range 30 {
		w.merge("nodes", "a", fmt.Sprintf(`{"metadata":{"annotations":{"heartbeat":"%d"}}}`, n))
		w.merge("pods", "first", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n))
	}
	w.pod("last", "quiet")
	w.Eventually(func() string {
		node, err := w.Objects("", "v1", "nodes").Get(t.Context(), "quiet", metav1.GetOptions{})
		if err != nil || node.GetLabels()[label] != "1" {
			return "the last pod is not counted"
		}
		return ""
	})
	w.written(1)
	stop()
}
