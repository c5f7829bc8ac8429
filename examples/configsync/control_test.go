package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/examples/internal/rigtest"
)

type world struct {
	*rigtest.Rig
	t *testing.T
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{rigtest.New(t), t}
	for _, name := range []string{"team-a", "team-b", "team-c"} {
		w.Create(w.Objects("", "v1", "namespaces"), map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		})
	}
	w.Create(w.maps("default"), map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"},
		"data": map[string]any{"color": "green"},
	})
	return w
}

func (w world) define() {
	w.t.Helper()
	text, err := os.ReadFile("crd.yaml")
	if err != nil {
		w.t.Fatalf("read a file: %v", err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		w.t.Fatalf("decode YAML: %v", err)
	}
	w.Create(w.Objects("apiextensions.k8s.io", "v1", "customresourcedefinitions"), crd)
	w.Eventually(func() string {
		if _, err := w.orders().List(w.t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (w world) maps(namespace string) dynamic.ResourceInterface {
	return w.Objects("", "v1", "configmaps").Namespace(namespace)
}

func (w world) orders() dynamic.ResourceInterface {
	return w.Objects("examples.gapless.io", "v1", "configcopies")
}

func (w world) order(name string, namespaces ...any) {
	w.t.Helper()
	w.Create(w.orders(), map[string]any{
		"apiVersion": "examples.gapless.io/v1", "kind": "ConfigCopy", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"source": map[string]any{"namespace": "default", "name": "settings"}, "namespaces": namespaces},
	})
}

func (w world) merge(in dynamic.ResourceInterface, name, patch string) {
	w.t.Helper()
	if _, err := in.Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatalf("patch: %v", err)
	}
}

func (w world) setColor(color string) {
	w.t.Helper()
	w.merge(w.maps("default"), "settings", fmt.Sprintf(`{"data":{"color":%q}}`, color))
}

func (w world) remove(in dynamic.ResourceInterface, name string) {
	w.t.Helper()
	if err := in.Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatalf("delete: %v", err)
	}
}

// copied waits until the copies are as wanted: namespace/name and its color.
func (w world) copied(want map[string]string) {
	w.t.Helper()
	w.Eventually(func() string {
		list, err := w.maps("").List(w.t.Context(), metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return err.Error()
		}
		got := map[string]string{}
		for _, m := range list.Items {
			color, _, _ := unstructured.NestedString(m.Object, "data", "color")
			got[m.GetNamespace()+"/"+m.GetName()] = color
		}
		return cmp.Diff(want, got)
	})
}

// reported waits until the status of an order is as wanted.
func (w world) reported(name string, want status) {
	w.t.Helper()
	w.Eventually(func() string {
		o, err := w.orders().Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		copies, _, _ := unstructured.NestedInt64(o.Object, "status", "copies")
		problem, _, _ := unstructured.NestedString(o.Object, "status", "problem")
		return cmp.Diff(want, status{Copies: int(copies), Problem: problem})
	})
}

// written checks that the controller changed so many things, and how many attempts
// it made at most.
func (w world) written(after string, least, most, attempts int) {
	w.t.Helper()
	writes := w.Writes()
	done := 0
	for _, write := range writes {
		if write.Code/100 == 2 {
			done++
		}
	}
	if done < least || done > most || len(writes) > attempts {
		w.t.Errorf("after %s: %d writes of %d attempts, want %d to %d of at most %d: %+v",
			after, done, len(writes), least, most, attempts, writes)
	}
}

func (w world) run() (stop func()) {
	return w.Run(func(ctx context.Context, cfg *rest.Config) error {
		return control(ctx, cfg, slog.New(slog.DiscardHandler))
	})
}

func TestCopiesFollowTheSource(t *testing.T) {
	w := newWorld(t)
	stop := w.run() // before the definition exists
	w.define()
	w.order("shared", "team-a", "team-b")
	w.copied(map[string]string{"team-a/shared": "green", "team-b/shared": "green"})
	w.reported("shared", status{Copies: 2})
	w.written("the beginning", 3, 3, 3) // two copies and the status

	w.setColor("blue")
	w.copied(map[string]string{"team-a/shared": "blue", "team-b/shared": "blue"})
	w.written("a change of the source", 2, 2, 2)

	w.merge(w.maps("team-a"), "shared", `{"data":{"color":"pink","extra":"1"}}`)
	w.Eventually(func() string {
		m, err := w.maps("team-a").Get(t.Context(), "shared", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(map[string]any{"color": "blue"}, m.Object["data"])
	})
	w.written("an edit of a copy", 1, 1, 1)

	w.remove(w.maps("team-b"), "shared")
	w.copied(map[string]string{"team-a/shared": "blue", "team-b/shared": "blue"})
	w.written("the deletion of a copy", 1, 1, 1)

	w.merge(w.orders(), "shared", `{"spec":{"namespaces":["team-b","team-c"]}}`)
	w.copied(map[string]string{"team-b/shared": "blue", "team-c/shared": "blue"})
	w.written("other namespaces", 2, 2, 2)

	w.remove(w.maps("default"), "settings")
	w.reported("shared", status{Problem: "the source does not exist"})
	w.copied(map[string]string{"team-b/shared": "blue", "team-c/shared": "blue"})
	w.Create(w.maps("default"), map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"},
		"data": map[string]any{"color": "red"},
	})
	w.copied(map[string]string{"team-b/shared": "red", "team-c/shared": "red"})
	w.reported("shared", status{Copies: 2})
	w.written("a source that went and came", 4, 4, 4)

	w.remove(w.orders(), "shared")
	w.copied(map[string]string{})
	w.written("the end", 2, 2, 4) // what is deleted already may be deleted again

	stop()
	w.written("nothing", 0, 0, 0)
}

func TestCopiesForADeletedConfigCopyAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.define()
	stop := w.run()
	w.order("shared", "team-a", "team-b")
	w.order("other", "team-c")
	w.copied(map[string]string{"team-a/shared": "green", "team-b/shared": "green", "team-c/other": "green"})
	w.reported("shared", status{Copies: 2})
	w.reported("other", status{Copies: 1})
	stop()
	w.Writes()
	w.remove(w.orders(), "shared")
	stop = w.run()
	w.copied(map[string]string{"team-c/other": "green"})
	w.written("a start", 2, 2, 4)
	stop()
}

func TestForeignConfigMapIsNotChanged(t *testing.T) {
	w := newWorld(t)
	w.define()
	w.Create(w.maps("team-a"), map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "shared"},
		"data": map[string]any{"mine": "1"},
	})
	stop := w.run()
	w.order("shared", "team-a", "team-b")
	w.copied(map[string]string{"team-b/shared": "green"}) // the other one is not held up
	m, err := w.maps("team-a").Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil || cmp.Diff(map[string]any{"mine": "1"}, m.Object["data"]) != "" {
		t.Errorf("it is %v, %v", m.Object["data"], err)
	}
	w.remove(w.maps("team-a"), "shared")
	w.copied(map[string]string{"team-a/shared": "green", "team-b/shared": "green"})
	stop()
}

func TestCopiesConvergeAfterEachFault(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 7 s")
	}
	w := newWorld(t)
	w.define()
	stop := w.run()
	w.order("shared", "team-a", "team-b")
	w.copied(map[string]string{"team-a/shared": "green", "team-b/shared": "green"})
	w.reported("shared", status{Copies: 2})
	w.Writes()
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
				if r.Method == http.MethodPut && conflicts.Add(1) <= 2 { // another writer was faster
					in := w.maps(strings.Split(r.URL.Path, "/")[4]) // /api/v1/namespaces/…
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, conflicts.Load())
					_, err := in.Patch(r.Context(), "shared", types.MergePatchType, patch, metav1.PatchOptions{})
					if !apierrors.IsNotFound(err) { // it may be deleted just now
						return err
					}
				}
				return nil
			})
			step()
		}},
	} {
		color, begin := fmt.Sprint("color-", n), time.Now()
		c.under(func() {
			w.setColor(color)
			w.remove(w.maps("team-b"), "shared")
		})
		w.copied(map[string]string{"team-a/shared": color, "team-b/shared": color})
		writes := w.Writes()
		done, refused := 0, 0
		for _, write := range writes {
			switch {
			case write.Code/100 == 2:
				done++
			case write.Code == http.StatusConflict:
				refused++
			}
		}
		// team-a is written once; team-b once or, changed before it is deleted, twice, and
		// as often again if answers are cut off: those writes have no code.
		if done > 4 || len(writes) > 14+2*rigtest.Retries(time.Since(begin)) {
			t.Errorf("after %s: %d writes of %d attempts: %+v", c.name, done, len(writes), writes)
		}
		if c.name == "conflicts" && refused == 0 {
			t.Errorf("no conflict: %+v", writes)
		}
		w.Before(nil)
	}
	w.reported("shared", status{Copies: 2})
	for n := range 30 { // irrelevant changes cause no write
		w.merge(w.maps("team-a"), "shared", fmt.Sprintf(`{"metadata":{"annotations":{"n":"again-%d"}}}`, n))
		w.merge(w.maps("default"), "settings", fmt.Sprintf(`{"metadata":{"annotations":{"n":"again-%d"}}}`, n))
	}
	w.setColor("last")
	w.copied(map[string]string{"team-a/shared": "last", "team-b/shared": "last"})
	w.written("many irrelevant changes", 2, 2, 4)
	stop()
}
