package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

// What is expected here is what random writes to kube-apiserver 1.37.2 have shown (conformance/replicas).

func TestACollectionIsAnsweredAsItWasBeforeItsDeletion(t *testing.T) {
	s := serve(t)
	s.create(s.at("configmaps", "default"), `{"metadata":{"name":"held","finalizers":["example.org/f"]}}`)
	gone, err := s.DeleteCollection(t.Context(), s.at("configmaps", "default"), metav1.DeleteOptions{}, options(nil))
	if err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	for o, err := range gone.Items {
		if err != nil {
			t.Fatalf("read the answer: %v", err)
		}
		if o.Deleting() {
			t.Errorf("the answer has %s, want it as it was", o.JSON())
		}
	}
	if o := s.get(s.at("configmaps", "default", "held")); !o.Deleting() {
		t.Errorf("the object is %s, want it under deletion", o.JSON())
	}
}

func TestARefusedDeletionOfAJobWarnsToo(t *testing.T) {
	s := serve(t)
	s.create(s.at("batch/v1/jobs", "default"),
		`{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
	other := types.UID("00000000-0000-0000-0000-000000000000")
	out, err := s.Delete(t.Context(), s.at("batch/v1/jobs", "default", "j"),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if wire.StatusOf(err).Code != 409 || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "child pods") {
		t.Errorf("the answer is %v with the warnings %q, want 409 and one about pods", err, out.Warnings)
	}
}

func TestARefusalOfAnEventNamesTheCoreGroup(t *testing.T) {
	s := serve(t)
	_, err := s.post(s.at(newEvents, "default"), strings.Replace(newEvent("e"), `"action":"a",`, "", 1))
	status := wire.StatusOf(err)
	if status.Code != 422 || status.Details.Group != "" || status.Details.Kind != "Event" {
		t.Errorf("the refusal is %+v of %+v, want that of an Event without a group", status, status.Details)
	}
}

func TestAConflictOfADeletionNamesTheCoreGroupForAnEvent(t *testing.T) {
	s := serve(t)
	s.create(s.at(newEvents, "default"), newEvent("e"))
	other := types.UID("00000000-0000-0000-0000-000000000000")
	_, err := s.Delete(t.Context(), s.at(newEvents, "default", "e"),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if status := wire.StatusOf(err); status.Code != 409 || status.Details.Group != "" {
		t.Errorf("the refusal is %+v of %+v, want a conflict without a group", status, status.Details)
	}
}

func TestAPutCreatesARuntimeClass(t *testing.T) {
	s := serve(t)
	o := s.update(s.at("node.k8s.io/v1/runtimeclasses", "", "r"), `{"metadata":{"name":"r"},"handler":"h"}`)
	if field(t, o, "handler") != "h" {
		t.Errorf("created %s", o.JSON())
	}
}

func TestAStatusInAutoscalingV1KeepsTheOrderOfMetrics(t *testing.T) {
	s := serve(t)
	s.create(s.at(newScaler, "default"), `{"metadata":{"name":"h"},"spec":{"maxReplicas":3,
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[
		{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}},
		{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}]}}`)
	first := func() any {
		metrics, _ := field(t, s.get(s.at(newScaler, "default", "h")), "spec", "metrics").([]any)
		text, err := json.Marshal(metrics[0])
		if err != nil {
			t.Fatalf("encode a metric: %v", err)
		}
		return strings.Contains(string(text), `"cpu"`)
	}
	at := s.at(oldScaler, "default", "h")
	at.Subresource = "status"
	s.merge(at, `{"status":{"currentReplicas":1}}`)
	if first() != true {
		t.Error("a write of the status has put the metrics in another order")
	}
	// Upstream writes the spec as it has been there and back again, and counts that.
	o := s.merge(s.at(oldScaler, "default", "h"), `{"metadata":{"labels":{"a":"b"}}}`)
	if first() != false || field(t, o, "metadata", "generation") != 2.0 {
		t.Errorf("after a write of the object it is %s, want the CPU last, and generation 2", o.JSON())
	}
}

func TestWhoSendsTheFinalizersOfANamespaceManagesThem(t *testing.T) {
	s := serve(t)
	managed := func(o *wire.Object) bool {
		text, err := json.Marshal(field(t, o, "metadata", "managedFields"))
		if err != nil {
			t.Fatalf("encode managedFields: %v", err)
		}
		return strings.Contains(string(text), `"f:finalizers"`)
	}
	if o := s.create(s.at("namespaces"), `{"metadata":{"name":"plain"}}`); managed(o) {
		t.Errorf("the finalizer that a namespace gets is managed: %s", o.JSON())
	}
	o := s.create(s.at("namespaces"), `{"metadata":{"name":"own"},"spec":{"finalizers":["example.org/f"]}}`)
	if list, _ := field(t, o, "spec", "finalizers").([]any); !managed(o) || len(list) != 2 {
		t.Errorf("created %s, want both finalizers, of which one is managed", o.JSON())
	}
	o = s.update(s.at("namespaces", "", "plain"), `{"metadata":{"name":"plain"},"spec":{"finalizers":["example.org/f"]}}`)
	if list, _ := field(t, o, "spec", "finalizers").([]any); !managed(o) || len(list) != 1 || list[0] != "kubernetes" {
		t.Errorf("updated to %s, want the finalizers kept, and managed by who has sent others", o.JSON())
	}
}

func TestAnExternalNameHasNoInternalTrafficPolicy(t *testing.T) {
	s := serve(t)
	s.create(s.at("services", "default"), `{"metadata":{"name":"s"},"spec":{"clusterIP":"None"}}`)
	o := s.merge(s.at("services", "default", "s"),
		`{"spec":{"type":"ExternalName","externalName":"example.org","clusterIP":null,"clusterIPs":null}}`)
	if policy := field(t, o, "spec", "internalTrafficPolicy"); policy != nil {
		t.Errorf("the service is %s, want no internalTrafficPolicy", o.JSON())
	}
}
