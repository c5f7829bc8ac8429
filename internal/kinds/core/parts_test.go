package core_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"

	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

// FuzzParts: a printer that decodes some parts of an object has the cells of one that
// decodes all of it.
func FuzzParts(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"deletionTimestamp":"2026-05-01T12:10:00Z"},"status":{"phase":"Failed","reason":"NodeLost"}}`,
		`{"spec":{"nodeName":"n","containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"i","restartPolicy":"Always"}],"readinessGates":[{"conditionType":"g"}]},
		"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"}],"nominatedNodeName":"m","conditions":[{"type":"g","status":"True"},{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"}],
		"initContainerStatuses":[{"name":"i","started":true,"ready":true,"restartCount":2,"lastState":{"terminated":{"finishedAt":"2026-05-01T12:05:00Z","exitCode":1}}}],
		"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}},{"name":"b","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}}`,
		`{"spec":{"initContainers":[{"name":"i"}]},"status":{"podIP":"10.0.0.1","initContainerStatuses":[{"state":{"terminated":{"exitCode":3,"signal":9}}}]}}`,
		`{"status":{"containerStatuses":[{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}],"conditions":[{"type":"PodScheduled","reason":"SchedulingGated"}]}}`,
		`{"data":{"a":"b","c":""},"binaryData":{"d":"AAEC"},"type":"Opaque"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sameCells(t, "pods", body, &corev1.Pod{})
		sameCells(t, "configmaps", body, &corev1.ConfigMap{})
		sameCells(t, "secrets", body, &corev1.Secret{})
	})
}

// sameCells reads body into a Go struct, as what is stored was.
func sameCells(t *testing.T, resource string, body []byte, typed metav1.Object) {
	t.Helper()
	if json.Unmarshal(body, typed) != nil {
		return
	}
	typed.SetName("x")
	typed.SetResourceVersion("")
	stored, err := json.Marshal(typed)
	if err != nil {
		return
	}
	// What follows the metadata is read alone where an object begins with its type, as it is stored.
	for _, head := range []string{"{", `{"apiVersion":"v1","kind":"Any",`} {
		o, err := wire.NewObject([]byte(head+string(stored[1:])), 7, nil)
		if err != nil {
			return
		}
		if diff := cmp.Diff(tabletest.Cells(core.WholeTables()[resource], o),
			tabletest.Cells(tabletest.Of(core.Kinds(), resource), o)); diff != "" {
			t.Errorf("%s: cells of a part of %s: %s", resource, o.JSON(), diff)
		}
	}
}
