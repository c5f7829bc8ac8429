package registry_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

// sized is a pod whose containers have some resources.
const sized = `{"metadata":{"name":"p"},"spec":{"restartPolicy":"Never",
	"initContainers":[{"name":"first","image":"i","resources":{"limits":{"cpu":"1"}}}],
	"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m","example.org/d":"1"},
	"limits":{"memory":"1Gi","example.org/d":"1"}}},{"name":"d","image":"i"}]}}`

// TestAPodIsResizedAndNothingElseOfItChanges by pods/resize.
func TestAPodIsResizedAndNothingElseOfItChanges(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), sized)
	at := s.at("pods", "default", "p", "resize")
	patch := func(body string) error {
		_, err := s.Patch(t.Context(), at, wire.Patch{Type: "application/strategic-merge-patch+json", Body: []byte(body)},
			metav1.PatchOptions{})
		return err
	}
	err := patch(`{"metadata":{"labels":{"not":"taken"}},"spec":{"hostNetwork":true,"containers":[` +
		`{"name":"c","image":"other","resources":{"requests":{"cpu":"300m"}}}]},"status":{"phase":"Running"}}`)
	if err != nil {
		t.Fatalf("resize: %v", err)
	}
	o := s.get(s.at("pods", "default", "p"))
	text := string(o.JSON())
	if len(o.Labels()) != 0 || field(t, o, "spec", "hostNetwork") != nil || field(t, o, "status", "phase") != "Pending" ||
		!strings.Contains(text, `"cpu":"300m"`) || strings.Contains(text, `"other"`) ||
		!strings.Contains(text, `"generation":2`) {
		t.Errorf("the pod is %s", text)
	}
	for body, want := range map[string]string{
		`{"spec":{"containers":[{"name":"e","image":"i"}]}}`: "spec.containers: Forbidden: containers may not " +
			"be added or removed " +
			"on resize",
		`{"spec":{"containers":[{"name":"c",` +
			`"resources":{"requests":{"cpu":null}}}]}}`: "spec.containers[0].resources.requests: " +
			"Forbidden: resource requests cannot be removed",
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"example.org/d":"2"},` +
			`"limits":{"example.org/d":"2"}}}]}}`: "spec: Forbidden: only cpu and memory resources are mutable",
		`{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"200m"}}}]}}`: "must be less than or equal to cpu limit",
		`{"spec":{"initContainers":[{"name":"first",` +
			`"resizePolicy":[{"resourceName":"cpu",` +
			`"restartPolicy":"NotRequired"}]}]}}`: "spec.initContainers[0]: Forbidden: only " +
			"cpu and memory resources for init or sidecar containers are mutable",
	} {
		if got := status(patch(body)); !strings.HasPrefix(got, "422") || !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", body, got, want)
		}
	}
	s.create(s.at("pods", "default"), `{"metadata":{"name":"bare"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	at = s.at("pods", "default", "bare", "resize")
	if got := status(patch(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`)); !strings.Contains(got,
		`spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing`) {
		t.Errorf("a pod without resources: %s", got)
	}
	s.create(s.at("pods", "default"), strings.Replace(strings.Replace(sized, `"p"`, `"running"`, 1), `"spec"`,
		`"status":{"phase":"Running"},"spec"`, 1))
	s.merge(s.at("pods", "default", "running", "status"),
		`{"status":{"containerStatuses":[{"name":"c","image":"i","imageID":"i",`+
			`"restartCount":0,"ready":true,"state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}]}}`)
	at = s.at("pods", "default", "running", "resize")
	if got := status(patch(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}}`)); !strings.Contains(
		got,
		"spec: Forbidden: Pod running on node without support for resize") {
		t.Errorf("on a node that cannot: %s", got)
	}
}

// TestAPodHasRoomForItsContainers: as upstream, the resources of a whole pod are at least those of its containers.
func TestAPodHasRoomForItsContainers(t *testing.T) {
	s := serve(t)
	const of = `{"metadata":{"name":"p"},"spec":{"initContainers":[{"name":"side","image":"i","restartPolicy":"Always",` +
		`"resources":{"requests":{"cpu":"1"}}},{"name":"first","image":"i","resources":{"requests":{"cpu":"3"}}}],` +
		`"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"6"}}}],"resources":`
	for resources, want := range map[string]string{
		`{"requests":{"cpu":"3"}}`: `spec.resources.requests[cpu]: Invalid value: "3": must be greater than or ` +
			`equal to aggregate ` +
			`container requests of 4`,
		`{"requests":{"cpu":"4"},"limits":{"cpu":"5"}}`: `spec.resources.containers[0][cpu].limits: Invalid ` +
			`value: "6": must be ` +
			`less than or equal to pod limits of 5`,
	} {
		_, err := s.post(s.at("pods", "default"), of+resources+`}}`)
		if got := status(err); !strings.HasPrefix(got, "422") || !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", resources, got, want)
		}
	}
	s.create(s.at("pods", "default"), of+`{"requests":{"cpu":"4"}}}}`)
}
