package pods_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/admission/plugins/pods"
	"github.com/gapless-io/gapless/internal/kinds"
)

var ofPods = kinds.GroupResource{Resource: "pods"}

// expectation is a write of a pod's spec and what becomes of it, in YAML.
type expectation struct {
	spec, old, want, err string
}

func (e expectation) check(t *testing.T, p plugins.Plugin) {
	t.Helper()
	const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: "
	now := pluginstest.Tree(t, head+e.spec)
	var err error
	if e.old == "" {
		err = pluginstest.Of(p, ofPods).About(t, now, nil)
	} else {
		err = pluginstest.Of(p, ofPods).About(t, now, pluginstest.Tree(t, head+e.old))
	}
	if e.err != "" {
		if err == nil || !strings.Contains(err.Error(), e.err) {
			t.Errorf("%s: error %v, want one that says %q", e.spec, err, e.err)
		}
		return
	}
	want := e.want
	if want == "" {
		want = e.spec
	}
	if diff := cmp.Diff(pluginstest.Tree(t, head+want).Object, now.Object); diff != "" || err != nil {
		t.Errorf("%s: %v, -want +got:\n%s", e.spec, err, diff)
	}
}

const class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"

func TestPodsGetThePriorityOfTheirClass(t *testing.T) {
	classes := pods.PriorityClasses()
	p := pods.Priority(classes)
	expectation{spec: `{}`, want: `{priority: 0, preemptionPolicy: PreemptLowerPriority}`}.check(t, p)
	pluginstest.Fill(t, classes,
		class+"metadata: {name: low}\nvalue: 7\npreemptionPolicy: Never",
		class+"metadata: {name: z}\nvalue: 9\nglobalDefault: true",
		class+"metadata: {name: a}\nvalue: 8\nglobalDefault: true\npreemptionPolicy: PreemptLowerPriority",
	)
	for _, e := range []expectation{
		{spec: `{}`, want: `{priorityClassName: a, priority: 8, preemptionPolicy: PreemptLowerPriority}`},
		{spec: `{priorityClassName: low}`, want: `{priorityClassName: low, priority: 7, preemptionPolicy: Never}`},
		{spec: `{priorityClassName: z}`, want: `{priorityClassName: z, priority: 9}`},
		{spec: `{priorityClassName: none}`, err: "no PriorityClass with name none was found"},
		{
			spec: `{priorityClassName: low, priority: 8}`,
			err:  "(8) must not be provided in pod spec; priority admission controller computed 7",
		},
		{spec: `{priorityClassName: low, preemptionPolicy: PreemptLowerPriority}`, err: "the string value of PreemptionPolicy"},
		{
			spec: `{nodeName: a}`, old: `{priority: 3, preemptionPolicy: Never}`,
			want: `{nodeName: a, priority: 3, preemptionPolicy: Never}`,
		},
		{spec: `{priority: 4}`, old: `{priority: 3}`},
	} {
		e.check(t, p)
	}
}

func TestThereIsOneDefaultPriority(t *testing.T) {
	classes := pods.PriorityClasses()
	p := pods.Priority(classes)
	of := classes.Follows()[0]
	one, other := class+"metadata: {name: one}\nvalue: 1\nglobalDefault: true", class+
		"metadata: {name: other}\nvalue: 2\nglobalDefault: true"
	if err := pluginstest.Of(p, of).About(t, pluginstest.Tree(t, one), nil); err != nil {
		t.Errorf("the first: %v", err)
	}
	classes.Change(of, pluginstest.Object(t, one), false)
	if err := pluginstest.Of(p, of).About(t, pluginstest.Tree(t, other), nil); err == nil ||
		!strings.Contains(err.Error(), "PriorityClass one is already marked as default") {
		t.Errorf("the second: %v", err)
	}
	if err := pluginstest.Of(p, of).About(t, pluginstest.Tree(t, one), pluginstest.Tree(t, one)); err != nil {
		t.Errorf("an update of the first: %v", err)
	}
	classes.Change(of, pluginstest.Object(t, one), true)
	if err := pluginstest.Of(p, of).About(t, pluginstest.Tree(t, other), nil); err != nil {
		t.Errorf("after the deletion of the first: %v", err)
	}
}

const (
	evicted = `{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}`
	apart   = `{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}`
)

func TestAClassThatCannotBeReadIsNotTakenForMissing(t *testing.T) {
	classes := pods.PriorityClasses()
	pluginstest.Fill(t, classes, class+"metadata: {name: low}\nvalue: 7\npreemptionPolicy: Never")
	classes.Unknown = func(_ kinds.GroupResource, _, name string) error {
		if name == "" || name == "lost" {
			return errors.New("priorityclasses lost cannot be read")
		}
		return nil
	}
	p := pods.Priority(classes)
	for _, e := range []expectation{
		{spec: `{}`, err: "lost cannot be read"}, // it may be the default
		{spec: `{priorityClassName: lost}`, err: "lost cannot be read"},
		{spec: `{priorityClassName: none}`, err: "no PriorityClass with name none was found"},
		{spec: `{priorityClassName: low}`, want: `{priorityClassName: low, priority: 7, preemptionPolicy: Never}`},
	} {
		e.check(t, p)
	}
}

func TestPodsStayForFiveMinutes(t *testing.T) {
	for _, e := range []expectation{
		{spec: `{}`, want: `{tolerations: [` + evicted + `, ` + apart + `]}`},
		{spec: `{tolerations: [{operator: Exists}]}`},
		{
			spec: `{tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}]}`,
			want: `{tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}, ` + evicted + `, ` +
				apart + `]}`,
		},
		{
			spec: `{tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]}`,
			want: `{tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}, ` + apart + `]}`,
		},
	} {
		e.check(t, pods.DefaultTolerationSeconds(300, 300))
	}
}

func TestPodsGetWhatTheirRuntimeNeeds(t *testing.T) {
	classes := pods.RuntimeClasses()
	pluginstest.Fill(t, classes, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: vm}
handler: h
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {vm: "yes"}, tolerations: [{key: vm, operator: Exists}]}
`, "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: plain}\nhandler: h")
	for _, e := range []expectation{
		{spec: `{}`},
		{spec: `{runtimeClassName: plain}`},
		{
			spec: `{runtimeClassName: vm}`,
			want: `{runtimeClassName: vm, overhead: {cpu: 250m}, nodeSelector: {vm: "yes"}, tolerations: [{key: vm, ` +
				`operator: Exists}]}`,
		},
		{
			spec: `{runtimeClassName: vm, overhead: {cpu: "0.25"}, tolerations: [{key: vm, operator: Equal, ` +
				`value: a}, {key: b}]}`,
			want: `{runtimeClassName: vm, overhead: {cpu: 250m}, nodeSelector: {vm: "yes"}, tolerations: [{key: b}, {key: vm, ` +
				`operator: Exists}]}`,
		},
		{spec: `{runtimeClassName: vm, overhead: {cpu: 1}}`, err: "Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		{
			spec: `{runtimeClassName: vm, nodeSelector: {vm: "no"}}`,
			err:  "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
		},
		{spec: `{runtimeClassName: none}`, err: `pod rejected: RuntimeClass "none" not found`},
		{spec: `{overhead: {cpu: 1}}`, err: "Pod Overhead set without corresponding RuntimeClass defined Overhead"},
	} {
		e.check(t, pods.RuntimeClass(classes))
	}
}

func TestImagesAreAlwaysPulled(t *testing.T) {
	for _, e := range []expectation{
		{
			spec: `{initContainers: [{image: a}], containers: [{image: b, imagePullPolicy: Never}], volumes: [{name: v}, ` +
				`{image: {reference: c}}]}`,
			want: `{initContainers: [{image: a, imagePullPolicy: Always}], containers: [{image: b, imagePullPolicy: Always}], ` +
				`volumes: [{name: v}, {image: {reference: c, pullPolicy: Always}}]}`,
		},
		{spec: `{containers: [{image: a, imagePullPolicy: Never}]}`, old: `{containers: [{image: a}]}`},
		{
			spec: `{containers: [{image: b, imagePullPolicy: Never}]}`, old: `{containers: [{image: a}]}`,
			want: `{containers: [{image: b, imagePullPolicy: Always}]}`,
		},
	} {
		e.check(t, pods.AlwaysPullImages())
	}
}
