package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/wire"
)

const (
	newEvents = "events.k8s.io/v1/events"
	oldScaler = "autoscaling/v1/horizontalpodautoscalers"
	newScaler = "autoscaling/v2/horizontalpodautoscalers"
)

func oldEvent(name string) string {
	return `{"apiVersion":"v1","kind":"Event","metadata":{"name":"` + name +
		`"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},` +
		`"reason":"Pulled","message":"m","count":2,"type":"Normal","source":{"component":"kubelet"},"firstTimestamp":"2026-11-20T10:00:00Z"}`
}

func newEvent(name string) string {
	return `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"` + name +
		`"},"regarding":{"kind":"Pod","namespace":"default","name":"p"},` +
		`"eventTime":"2026-11-20T10:00:00.123456Z","reportingController":"c","reportingInstance":"i","action":"a","reason":"Failed","note":"n","type":"Warning"}`
}

func TestEventsAreTheSameInBothGroups(t *testing.T) {
	s := serve(t)
	watches := map[string]*watcher{}
	for _, group := range []string{"events", newEvents} {
		watches[group] = s.watch(s.at(group, "default"), func(o *wire.ListOptions) { o.ResourceVersion = "0" })
	}
	old, fresh := s.create(s.at("events", "default"), oldEvent("old")), s.create(s.at(newEvents, "default"), newEvent("new"))
	if fresh.APIVersion() != "events.k8s.io/v1" || fresh.ResourceVersion() <= old.ResourceVersion() {
		t.Errorf("created %s", fresh.JSON())
	}
	shown := s.get(s.at(newEvents, "default", "old"))
	for path, want := range map[string]any{
		"note": "m", "deprecatedCount": 2.0, "deprecatedFirstTimestamp": "2026-11-20T10:00:00Z", "message": nil, "count": nil,
		"involvedObject": nil,
	} {
		if got := field(t, shown, path); got != want {
			t.Errorf("the old event has %s %v, want %v", path, got, want)
		}
	}
	if shown.ResourceVersion() != old.ResourceVersion() || shown.UID() != old.UID() ||
		field(t, shown, "regarding", "name") != "p" {
		t.Errorf("the old event is shown as %s", shown.JSON())
	}
	if o := s.get(s.at("events", "default", "new")); field(t, o, "message") != "n" || field(t, o, "reportingComponent") != "c" ||
		o.APIVersion() != "v1" {
		t.Errorf("the new event is shown as %s", o.JSON())
	}
	s.delete(s.at(newEvents, "default", "old"))
	for group, w := range watches {
		if diff := cmp.Diff([]string{"END", "ADDED default/old", "ADDED default/new", "DELETED default/old"},
			w.take(4)); diff != "" {
			t.Errorf("watch of %s (-want +got):\n%s", group, diff)
		}
	}
	// Initial events, lists and watches show the form that they are of.
	w := s.watch(s.at(newEvents, "default"), nil)
	s.create(s.at("events", "default"), oldEvent("third"))
	for _, want := range []string{"new", "", "third"} {
		switch e := w.next(); {
		case want == "":
		case field(t, e.Object, "regarding", "name") != "p" || e.Object.Key().Name != want ||
			e.Object.APIVersion() != "events.k8s.io/v1":
			t.Errorf("the watch shows %s", e.Object.JSON())
		}
	}
	list := items(s.list(s.at(newEvents, "default"), func(o *wire.ListOptions) {
		o.Fields = fields.ParseSelectorOrDie("regarding.name=p,type=Warning")
	}))
	if len(list) != 1 || field(t, list[0], "note") != "n" {
		t.Errorf("selected %d events", len(list))
	}
}

func TestUpdateWithAConvertedObjectChangesNothing(t *testing.T) {
	s := serve(t)
	s.create(s.at("events", "default"), oldEvent("old"))
	s.create(s.at(newEvents, "default"), newEvent("new"))
	metrics := `[` + // the old version has the CPU apart, and puts it last
		`{"type":"ContainerResource","containerResource":{"name":"memory","container":"c","target":{"type":"AverageValue",` +
		`"averageValue":"1Gi"}}},` +
		`{"type":"Pods","pods":{"metric":{"name":"rps","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue",` +
		`"averageValue":"1k"}}},` +
		`{"type":"Object","object":{"describedObject":{"kind":"Service","name":"s"},"metric":{"name":"hits"},` +
		`"target":{"type":"Value","value":"10"}}},` +
		`{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"5"}}},` +
		`{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]`
	s.create(s.at(newScaler, "default"),
		`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h","annotations":{"mine":"x"}},`+
			`"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3,"metrics":`+metrics+`,"behavior":{"scaleDown":{"stabilizationWindowSeconds":7}}}}`)
	for resource, name := range map[string]string{"events": "new", newEvents: "new", oldScaler: "h"} {
		before := s.get(s.at(resource, "default", name))
		if resource == "events" { // its managers of the other group are dropped first
			before = s.update(s.at(resource, "default", name), string(before.JSON()))
		}
		after := s.update(s.at(resource, "default", name), string(before.JSON()))
		if after.ResourceVersion() != before.ResourceVersion() || !bytes.Equal(after.JSON(), before.JSON()) {
			t.Errorf("%s was\n%s and became\n%s", resource, before.JSON(), after.JSON())
		}
	}
}

func TestAutoscalingV1IsStoredAsV2(t *testing.T) {
	s := serve(t)
	created := s.create(s.at(oldScaler, "default"),
		`{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3}}`)
	if field(t, created, "spec", "targetCPUUtilizationPercentage") != 80.0 {
		t.Errorf("created %s, want the usual utilization", created.JSON())
	}
	const memory = `{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}`
	s.merge(s.at(newScaler, "default", "h"), `{"spec":{"metrics":[`+memory+`],"behavior":{"scaleUp":{"selectPolicy":"Min"}}}}`)
	old := s.get(s.at(oldScaler, "default", "h"))
	notes, _ := field(t, old, "metadata", "annotations").(map[string]any)
	if notes["autoscaling.alpha.kubernetes.io/metrics"] !=
		`[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]` {
		t.Errorf("annotations %v", notes)
	}
	// An update through the old version keeps what it cannot say.
	s.merge(s.at(oldScaler, "default", "h"), `{"spec":{"maxReplicas":9,"targetCPUUtilizationPercentage":50}}`)
	spec, err := json.Marshal(field(t, s.get(s.at(newScaler, "default", "h")), "spec"))
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	for _, want := range []string{`"maxReplicas":9`, `"averageUtilization":50`, `"averageValue":"1Gi"`, `"selectPolicy":"Min"`} {
		if !bytes.Contains(spec, []byte(want)) {
			t.Errorf("the spec has no %s: %s", want, spec)
		}
	}
	if notes := field(t, s.get(s.at(newScaler, "default", "h")), "metadata", "annotations"); notes != nil {
		t.Errorf("the new version has the annotations %v", notes)
	}
}

// TestAutoscalingV1KnowsTheFormsOfUpstream: metrics that are said twice, the texts of its
// annotations, and which of them belong to the status. What is expected is kube-apiserver 1.37.2's.
func TestAutoscalingV1KnowsTheFormsOfUpstream(t *testing.T) {
	const (
		metrics, current = "autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/current-metrics"
		behavior         = "autoscaling.alpha.kubernetes.io/behavior"
		cpu              = `{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":50}}`
		memory           = `{"type":"Resource","resource":{"name":"memory","targetAverageValue":"10Mi"}}`
		use              = `{"type":"Resource","resource":{"name":"memory","currentAverageValue":"1"}}`
	)
	type notes map[string]string
	for _, c := range []struct {
		name      string
		notes     notes
		cpu       string // of spec
		shown     notes
		shownCPU  float64
		stored    string   // metrics of autoscaling/v2, as "cpu 50%"
		contained []string // in the v2 object
	}{
		{"CPU twice", notes{metrics: "[" + cpu + "]"}, "60", nil, 50, "cpu 50% cpu 60%", nil},
		{
			"CPU and memory",
			notes{metrics: "[" + cpu + "," + memory + "]"},
			"60",
			notes{metrics: "[" + memory + "]"},
			50,
			"cpu 50% memory 10Mi cpu 60%", nil,
		},
		{"memory", notes{metrics: "[" + memory + "]"}, "60", notes{metrics: "[" + memory + "]"}, 60, "memory 10Mi cpu 60%", nil},
		{"malformed", notes{metrics: `[{"type":5}]`}, "null", nil, 80, "cpu 80%", nil},
		{"empty behavior", notes{behavior: "{}"}, "60", nil, 60, "cpu 60%", nil},
		{
			"behavior in any case",
			notes{behavior: `{"scaledown":{"policies":[{"type":"Pods","value":1,"periodSeconds":5}]}}`},
			"60",
			notes{
				behavior: `{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods",` +
					`"Value":4,"PeriodSeconds":15},` +
					`{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null},` +
					`"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max",` +
					`"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":5}],"Tolerance":null}}`,
			},
			60, "cpu 60%",
			[]string{`"scaleDown":{"policies":[{"periodSeconds":5,"type":"Pods","value":1}]`},
		},
		{"status", notes{current: "[" + use + "]"}, "60", nil, 60, "cpu 60%", []string{`"currentMetrics":null`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			text, err := json.Marshal(c.notes)
			if err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			created := s.create(s.at(oldScaler, "default"), fmt.Sprintf(`{"metadata":{"name":"h","annotations":%s},`+
				`"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"D","name":"d"},"maxReplicas":3,`+
				`"targetCPUUtilizationPercentage":%s}}`, text, c.cpu))
			shown := notes{}
			annotations, _ := field(t, created, "metadata", "annotations").(map[string]any)
			for name, note := range annotations {
				shown[name], _ = note.(string)
			}
			if c.shown == nil {
				c.shown = notes{}
			}
			if diff := cmp.Diff(c.shown, shown); diff != "" ||
				field(t, created, "spec", "targetCPUUtilizationPercentage") != c.shownCPU {
				t.Errorf("annotations: -want +got:\n%s\nobject %s", diff, created.JSON())
			}
			stored := s.get(s.at(newScaler, "default", "h"))
			var all []string
			list, _ := field(t, stored, "spec", "metrics").([]any)
			for _, m := range list {
				m, _ := m.(map[string]any)
				resource, _ := m["resource"].(map[string]any)
				target, _ := resource["target"].(map[string]any)
				value := fmt.Sprint(target["averageValue"])
				if percent := target["averageUtilization"]; percent != nil {
					value = fmt.Sprintf("%v%%", percent)
				}
				all = append(all, fmt.Sprint(resource["name"], " ", value))
			}
			if got := strings.Join(all, " "); got != c.stored {
				t.Errorf("stored are the metrics %q, want %q", got, c.stored)
			}
			for _, want := range c.contained {
				if !bytes.Contains(stored.JSON(), []byte(want)) {
					t.Errorf("stored without %s: %s", want, stored.JSON())
				}
			}
		})
	}
}

// TestTheGenerationOfAConvertedAutoscalerCountsItsAnnotations: they are a part of the spec, and not
// the status's to write.
func TestTheGenerationOfAConvertedAutoscalerCountsItsAnnotations(t *testing.T) {
	s := serve(t)
	at := s.at(oldScaler, "default", "h")
	s.create(s.at(oldScaler, "default"),
		`{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"D","name":"d"},"maxReplicas":3}}`)
	const memory = `{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\",` +
		`\"resource\":{\"name\":\"memory\",\"targetAverageValue\":\"%s\"}}]"}}}`
	if got := s.merge(at, fmt.Sprintf(memory, "1Gi")); got.Generation() != 2 {
		t.Errorf("generation %d of %s, want 2", got.Generation(), got.JSON())
	}
	status := at
	status.Subresource = "status"
	if got := s.merge(status, fmt.Sprintf(memory, "2Gi")); got.Generation() != 2 || bytes.Contains(got.JSON(), []byte("2Gi")) {
		t.Errorf("the status has changed the spec: %s", got.JSON())
	}
}

func TestConvertedObjectMustBeValidInItsStoredForm(t *testing.T) {
	s := serve(t)
	for name, body := range map[string]string{
		"metric without a type":   `{"autoscaling.alpha.kubernetes.io/metrics":"[{}]"}`,
		"metric without a source": `{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\"}]"}`,
	} {
		_, err := s.Create(t.Context(), s.at(oldScaler, "default"), fmt.Appendf(nil,
			`{"metadata":{"name":"h","annotations":%s},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment",`+
				`"name":"d"},"maxReplicas":3}}`, body), metav1.CreateOptions{})
		if wire.StatusOf(err).Code != 422 {
			t.Errorf("%s: %v, want 422", name, err)
		}
	}
	for name, body := range map[string]string{
		"no eventTime":    `{"metadata":{"name":"e"},"regarding":{"namespace":"default"},"type":"Normal"}`,
		"other namespace": `{"metadata":{"name":"e"},"regarding":{"namespace":"other"},"type":"Normal"}`,
	} {
		if _, err := s.Create(t.Context(), s.at(newEvents, "default"), []byte(body),
			metav1.CreateOptions{}); wire.StatusOf(err).Code != 422 {
			t.Errorf("%s: %v, want 422", name, err)
		}
	}
	s.create(s.at(newEvents, "default"), newEvent("e"))
	_, err := s.Update(t.Context(), s.at(newEvents, "default", "e"),
		[]byte(newEvent("e")[:len(newEvent("e"))-1]+`,"action":"other"}`), metav1.UpdateOptions{})
	if got := status(
		err); got != `422 Invalid Event "e" is invalid: action: Invalid value: "other": field is immutable` {
		t.Errorf("a changed event: %s", got)
	}
}
