package registry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestDeleteWithoutFinalizersAnswersWithAStatus(t *testing.T) {
	s := serve(t)
	o := s.create(s.at("configmaps", "default"), configMap("a"))
	got := s.delete(s.at("configmaps", "default", "a"))
	want := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success",
		Details: &metav1.StatusDetails{Name: "a", Kind: "configmaps", UID: o.UID()},
	}
	if diff := cmp.Diff(want, got.Status); diff != "" || got.Object != nil {
		t.Errorf("-want +got:\n%s\nobject %v", diff, got.Object)
	}
	account := s.create(s.at("serviceaccounts", "default"), `{"metadata":{"name":"a"}}`)
	if got := s.delete(s.at("serviceaccounts", "default", "a")); got.Object == nil || got.Object.UID() != account.UID() {
		t.Errorf("a kind that returns what was deleted: %+v", got)
	}
}

func TestDeleteOfAnObjectWithFinalizersMarksItOnce(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	at := s.at(foos, "default", "a")
	was := s.create(s.at(foos, "default"), fooAt("a", `,"finalizers":["x.io/f"]`, ``))
	marked := s.delete(at).Object
	if !marked.Deleting() || marked.Generation() != was.Generation()+1 ||
		field(t, marked, "metadata", "deletionGracePeriodSeconds") != float64(0) {
		t.Errorf("marked: %s", marked.JSON())
	}
	if again := s.delete(at).Object; again != marked {
		t.Errorf("the second deletion made %s of %s", again.JSON(), marked.JSON())
	}
}

func TestDeleteRefusals(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	o := s.create(s.at(foos, "default"), foo("f2", `{}`))
	old, uid := "1", types.UID("zz")
	bogus, orphan, yes := metav1.DeletionPropagation("Foo"), metav1.DeletePropagationOrphan, true
	for _, c := range []struct {
		name, resource, namespace, object string
		options                           metav1.DeleteOptions
		want                              string
	}{
		{"missing", foos, "default", "x", metav1.DeleteOptions{}, `404 NotFound foos.t.example.com "x" not found`},
		{
			"resourceVersion", foos, "default", "f2",
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}},
			fmt.Sprintf(
				`409 Conflict Operation cannot be fulfilled on Foo.t.example.com "f2": the ResourceVersion in the precondition `+
					`(1) does not match the ResourceVersion in record (%d). The object might have been modified`,
				o.ResourceVersion()),
		},
		{
			"uid", foos, "default", "f2",
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
			fmt.Sprintf(
				`409 Conflict Operation cannot be fulfilled on Foo.t.example.com "f2": the UID in the precondition (zz) does `+
					`not match the UID in record (%s). The object might have been deleted and then recreated`, o.UID()),
		},
		{
			"policy", foos, "default", "f2",
			metav1.DeleteOptions{PropagationPolicy: &bogus},
			`422 Invalid DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported ` +
				`values: "Foreground", "Background", "Orphan", "nil"`,
		},
		//nolint:staticcheck // clients still send the deprecated option
		{
			"two policies", foos, "default", "f2",
			metav1.DeleteOptions{PropagationPolicy: &orphan, OrphanDependents: &yes},
			`422 Invalid DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents ` +
				`and deletionPropagation cannot be both set`,
		},
		{
			"default", "namespaces", "", "default",
			metav1.DeleteOptions{},
			`403 Forbidden namespaces "default" is forbidden: this namespace may not be deleted`,
		},
		{
			"kube-system", "namespaces", "", "kube-system",
			metav1.DeleteOptions{},
			`403 Forbidden namespaces "kube-system" is forbidden: this namespace may not be deleted`,
		},
		{
			"kube-public", "namespaces", "", "kube-public",
			metav1.DeleteOptions{},
			`403 Forbidden namespaces "kube-public" is forbidden: this namespace may not be deleted`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Delete(t.Context(), s.at(c.resource, c.namespace, c.object), c.options)
			if diff := cmp.Diff(c.want, status(err)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if is := s.get(s.at(foos, "default", "f2")); is != o {
		t.Errorf("refused deletions changed the object to %s", is.JSON())
	}
}

func TestPropagationPoliciesHoldObjectsForTheCollectorOfAnotherProgram(t *testing.T) {
	s := serve(t) // without a collector
	at := s.at("configmaps", "default", "a")
	for policy, want := range map[metav1.DeletionPropagation][]any{
		metav1.DeletePropagationForeground: {metav1.FinalizerDeleteDependents},
		metav1.DeletePropagationOrphan:     {metav1.FinalizerOrphanDependents},
	} {
		s.create(s.at("configmaps", "default"), `{"metadata":{"name":"a","finalizers":["orphan"]}}`)
		held := s.delete(at).Object // as its finalizer says
		if held == nil || !held.Deleting() {
			t.Fatalf("an object with the finalizer orphan is not held: %v", held)
		}
		out, err := s.Delete(t.Context(), at, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil || out.Object == nil {
			t.Fatalf("%s: %+v, %v", policy, out, err)
		}
		if diff := cmp.Diff(any(want), field(t, out.Object, "metadata", "finalizers")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", policy, diff)
		}
		s.merge(at, `{"metadata":{"finalizers":null}}`) // as a collector ends it
		if _, err := s.Get(t.Context(), at, ""); wire.StatusOf(err).Code != 404 {
			t.Errorf("%s: without finalizers it is still there: %v", policy, err)
		}
	}
	background := metav1.DeletePropagationBackground
	s.create(s.at("configmaps", "default"), `{"metadata":{"name":"a","finalizers":["orphan"]}}`)
	out, err := s.Delete(t.Context(), at, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil || out.Status == nil {
		t.Errorf("%s: %+v, %v", background, out, err)
	}
}

const podOnNode = `{"metadata":{"name":"p"},"spec":{"nodeName":"n","terminationGracePeriodSeconds":20,` +
	`"containers":[{"name":"c","image":"i"}]}}`

func TestDeleteOfAScheduledPodSetsItsGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		at := s.at("pods", "default", "p")
		s.create(s.at("pods", "default"), `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		if out := s.delete(at); out.Object == nil ||
			field(t, out.Object, "metadata", "deletionGracePeriodSeconds") != float64(0) {
			t.Errorf("a pod without a node: %+v", out)
		}
		s.create(s.at("pods", "default"), podOnNode)
		marked := s.delete(at).Object
		if got, want := field(t, marked, "metadata",
			"deletionTimestamp"), time.Now().UTC().Add(20*time.Second).Format(time.RFC3339); got != want {
			t.Errorf("deletionTimestamp %v, want %v", got, want)
		}
		grace := func(seconds int64) wire.Written {
			out, err := s.Delete(t.Context(), at, metav1.DeleteOptions{GracePeriodSeconds: &seconds})
			if err != nil {
				t.Fatalf("delete: %v", err)
			}
			return out
		}
		if longer := grace(60).Object; longer != marked {
			t.Errorf("a longer grace made %s", longer.JSON())
		}
		if shorter := grace(5).Object; field(t, shorter, "metadata", "deletionGracePeriodSeconds") != float64(5) {
			t.Errorf("a shorter grace made %s", shorter.JSON())
		}
		grace(0)
		if _, err := s.Get(t.Context(), at, ""); wire.StatusOf(err).Code != 404 {
			t.Errorf("no grace, and the pod is still there: %v", err)
		}
	})
}

func TestDeleteCollectionDeletesSelectedObjects(t *testing.T) {
	s := serve(t)
	for i := range 40 {
		s.create(s.at("configmaps", "default"), fmt.Sprintf(`{"metadata":{"name":"c%02d","labels":{"odd":"%d"}}}`, i, i%2))
	}
	s.create(s.at("configmaps", "kube-system"), `{"metadata":{"name":"c","labels":{"odd":"1"}}}`)
	s.merge(s.at("configmaps", "default", "c01"), `{"metadata":{"finalizers":["x.io/f"]}}`)
	odd, err := labels.Parse("odd=1")
	if err != nil {
		t.Fatalf("parse the selector: %v", err)
	}
	gone, err := s.DeleteCollection(t.Context(), s.at("configmaps", "default"), metav1.DeleteOptions{},
		options(func(o *wire.ListOptions) { o.Labels = odd }))
	if err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	if got := names(gone); len(got) != 20 || got[0] != "default/c01" || got[1] != "default/c03" {
		t.Errorf("deleted %v", got)
	}
	left := names(s.list(s.at("configmaps"), nil))
	if len(left) != 22 || left[0] != "default/c00" || left[1] != "default/c01" || left[21] != "kube-system/c" {
		t.Errorf("left %v", left)
	}
	_, err = s.DeleteCollection(t.Context(), s.at("configmaps", "default"), metav1.DeleteOptions{},
		options(func(o *wire.ListOptions) {
			o.Fields = fields.OneTermEqualSelector("spec.a", "b")
		}))
	if diff := cmp.Diff(`400 BadRequest "spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		status(err)); diff != "" {
		t.Error(diff)
	}
}
