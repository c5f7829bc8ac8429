package informer_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// sharedPods is a source of 140 pods of four ReplicaSets. Each request has a server of
// its own, so that the source works in several synctest bubbles.
func sharedPods(t *testing.T) informer.Source[*corev1.Pod] {
	t.Helper()
	each := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { newPodServer(t, 140).ServeHTTP(w, r) })
	return informer.For[*corev1.Pod](listwatchtest.Config(each), podsGVR(), informer.JSONOnly())
}

// labelMaps counts the maps that the labels of all pods of a source are, and calls each
// for each pod.
func labelMaps(t *testing.T, source informer.Source[*corev1.Pod], each func(p *corev1.Pod)) (maps int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		while(t, source, func(i *informer.Informer[*corev1.Pod]) {
			after(time.Second)
			seen := map[uintptr]bool{}
			for _, p := range i.All() {
				seen[reflect.ValueOf(p.Labels).Pointer()] = true
				each(p)
			}
			maps = len(seen)
			if i.Len() != 140 {
				t.Errorf("%d pods", i.Len())
			}
		}, informer.NoStreamingLists())
	})
	return maps
}

func TestEqualPartsOfObjectsShareMemoryInTheCache(t *testing.T) {
	sets := map[string]string{}
	maps := labelMaps(t, sharedPods(t), func(p *corev1.Pod) {
		set := p.OwnerReferences[0].Name
		if sets[set] == "" {
			sets[set] = fmt.Sprint(p.Labels)
		}
		if fmt.Sprint(p.Labels) != sets[set] {
			t.Errorf("%s has the labels %v, others of its set %s", p.Name, p.Labels, sets[set])
		}
	})
	// The first two of a set, or a few more where two goroutines meet, have their own.
	if len(sets) != 4 || maps < 4 || maps > 40 {
		t.Errorf("140 pods of %d sets have %d maps of labels", len(sets), maps)
	}
}

func TestTransformMayModifyAllOfAnObject(t *testing.T) {
	source := sharedPods(t)
	altered := source.Transform(func(p *corev1.Pod) (*corev1.Pod, error) {
		p.Labels["mine"] = p.Name
		p.Spec.Tolerations[0].Key = p.Name
		return p, nil
	}).Transform(func(p *corev1.Pod) (*corev1.Pod, error) {
		p.OwnerReferences[0].Name = p.Name
		return p, nil
	})
	maps := labelMaps(t, altered, func(p *corev1.Pod) {
		if p.Labels["mine"] != p.Name || p.Spec.Tolerations[0].Key != p.Name || p.OwnerReferences[0].Name != p.Name {
			t.Errorf("%s has what was made of another pod: %v, %v", p.Name, p.Labels, p.OwnerReferences)
		}
	})
	if maps != 140 {
		t.Errorf("140 pods have %d maps of labels", maps)
	}
	labelMaps(t, source, func(p *corev1.Pod) { // the source itself is as it was
		if p.Labels["mine"] != "" {
			t.Errorf("%s was altered in the source too: %v", p.Name, p.Labels)
		}
	})
}

func TestSharedJSONSharesAndJSONDoesNot(t *testing.T) {
	one := func(decode func([]byte) (*corev1.Pod, error)) bool {
		labels := map[uintptr]bool{}
		for n := range 4 {
			p, err := decode([]byte(realisticPod(n, 1)))
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			labels[reflect.ValueOf(p.Labels).Pointer()] = true
		}
		return len(labels) < 4
	}
	if !one(informer.SharedJSON[*corev1.Pod]()) || one(informer.JSON[*corev1.Pod]()) {
		t.Error("JSON shares, or SharedJSON does not")
	}
}
