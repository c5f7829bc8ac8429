package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/admission/plugins/limits"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/kinds"
)

var (
	ofPods   = kinds.GroupResource{Resource: "pods"}
	ofClaims = kinds.GroupResource{Resource: "persistentvolumeclaims"}
)

const (
	pod   = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\nspec: "
	claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: team}\nspec: "
)

// limited is a LimitRange in the namespace n.
func limited(name, items string) string {
	return "apiVersion: v1\nkind: LimitRange\nmetadata: {name: " + name + ", namespace: team}\nspec: {limits: " + items + "}"
}

func TestContainersGetTheDefaults(t *testing.T) {
	table := limits.Ranges()
	pluginstest.Fill(t, table,
		limited("b", `[{type: Container, default: {memory: 1Gi}, defaultRequest: {memory: 1Gi}}]`),
		limited("a", `[{type: Container, default: {cpu: "9"}, defaultRequest: {cpu: 100m, example.com/a: 2}}, `+
			`{type: Container, default: {cpu: 0.50}}, {type: Pod, default: {cpu: "7"}}]`))
	p := limits.LimitRanger(table)
	const (
		all = `{requests: {cpu: 100m, example.com/a: "2", memory: 1Gi}, limits: {cpu: 500m, memory: 1Gi}}`
		// Each LimitRange that sets something replaces the note of the one before.
		note = "memory request for container c; memory limit for container c; memory request for init container i; " +
			"memory limit for init container i"
	)
	for _, c := range []struct{ spec, want, note string }{
		{
			`{containers: [{name: c}], initContainers: [{name: i, restartPolicy: Always}], ephemeralContainers: [{name: e}]}`,
			`{containers: [{name: c, resources: ` + all + `}], initContainers: [{name: i, restartPolicy: Always, resources: ` +
				all + `}], ephemeralContainers: [{name: e}]}`, note,
		},
		{
			`{containers: [{name: c, resources: {requests: {cpu: 1, memory: 0}, limits: {memory: 1Mi, example.com/b: 1}}}]}`,
			`{containers: [{name: c, resources: {requests: {cpu: 1, memory: 0, example.com/a: "2"}, limits: {memory: 1Mi, ` +
				`example.com/b: 1, cpu: 500m}}}]}`, "cpu limit for container c",
		},
		{`{containers: [{name: c, resources: ` + all + `}]}`, "", ""},
		{`{containers: [{name: c, resources: 7}, 8]}`, "", ""},
	} {
		u := pluginstest.Tree(t, pod+c.spec)
		before := u.DeepCopy()
		_ = pluginstest.Of(p, ofPods).About(t, u, nil) // only about what is set
		note := u.GetAnnotations()["kubernetes.io/limit-ranger"]
		u.SetAnnotations(nil)
		want := before.Object
		if c.want != "" {
			want = pluginstest.Tree(t, pod+c.want).Object
		}
		if diff := cmp.Diff(want, u.Object); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.spec, diff)
		}
		if c.note != "" && !strings.HasPrefix(note, "LimitRanger plugin set: ") || c.note == "" && note != "" ||
			!strings.HasSuffix(note, c.note) {
			t.Errorf("%s: the note is %q, want %q", c.spec, note, c.note)
		}
	}
}

// TestManyContainersAreNotComparedWithManyAmounts: errors and defaults would be as many as both multiplied.
func TestManyContainersAreNotComparedWithManyAmounts(t *testing.T) {
	var least []string
	for i := range 500 {
		least = append(least, fmt.Sprintf(`example.com/r%d: "1"`, i))
	}
	some := strings.Join(least, ", ")
	table := limits.Ranges()
	pluginstest.Fill(t, table,
		limited("a", `[{type: Container, min: {`+some+`}}, {type: Pod, max: {`+some+`}}]`),
		limited("b", `[{type: Container, default: {`+some+`}}]`))
	p := pluginstest.Of(limits.LimitRanger(table), ofPods)
	const of = "Request entity too large: 501 containers and 1000 amounts of LimitRanges are 501000 comparisons, limit is 500000"
	for n, want := range map[int]string{250: "is forbidden: ", 251: of} {
		spec := `{containers: [` + strings.Repeat("{name: c}, ", n) + `], initContainers: [` + strings.Repeat("{name: i}, ",
			250) + `]}`
		err := p.About(t, pluginstest.Tree(t, pod+spec), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d containers: %.200v, want %s", n, err, want)
		}
	}
}

func TestPodsKeepToTheLimits(t *testing.T) {
	type one struct{ limits, spec, want string }
	container := func(resources string) string { return `{containers: [{name: c, resources: ` + resources + `}]}` }
	for _, c := range []one{
		{`[{type: Container, min: {cpu: 100m}}]`, container(`{requests: {cpu: 0.1}}`), ""},
		{
			`[{type: Container, min: {cpu: 100m}}]`, container(`{}`),
			"minimum cpu usage per Container is 100m.  No request is specified",
		},
		{
			`[{type: Container, min: {cpu: 100m}}]`, container(`{requests: {cpu: 99m}}`),
			"minimum cpu usage per Container is 100m, but request is 99m",
		},
		{
			`[{type: Container, min: {memory: 8Gi}}]`, container(`{requests: {memory: 8Gi}, limits: {memory: 8192M}}`),
			"minimum memory usage per Container is 8Gi, but limit is 8192M",
		},
		{
			`[{type: Container, max: {cpu: "1"}}]`, container(`{requests: {cpu: 1}}`),
			"maximum cpu usage per Container is 1.  No limit is specified",
		},
		{
			`[{type: Container, max: {cpu: "1"}}]`, container(`{requests: {cpu: 1001m}, limits: {cpu: 1000m}}`),
			"maximum cpu usage per Container is 1, but request is 1001m",
		},
		{
			`[{type: Container, max: {cpu: "1", memory: 1Gi}}]`, container(`{limits: {cpu: 2, memory: 2Gi}}`),
			"[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit is 2Gi]",
		},
		{`[{type: Container, maxLimitRequestRatio: {cpu: 1500m}}]`, container(`{requests: {cpu: 2}, limits: {cpu: 3}}`), ""},
		{
			`[{type: Container, maxLimitRequestRatio: {cpu: 1500m}}]`, container(`{requests: {cpu: 2}, limits: {cpu: 4}}`),
			"cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
		},
		{
			`[{type: Container, maxLimitRequestRatio: {cpu: "2"}}]`, container(`{requests: {cpu: 0}, limits: {cpu: 4}}`),
			"cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
		},
		{
			`[{type: Container, maxLimitRequestRatio: {cpu: "2"}}]`, container(`{requests: {cpu: 1}}`),
			"cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
		},
		// Beyond what can be counted in thousandths, whole numbers are compared: 1500m counts as 2.
		{
			`[{type: Container, max: {cpu: 9E}}]`, container(`{requests: {cpu: 1500m}, limits: {cpu: 9E}}`), "",
		},
		{
			`[{type: Container, maxLimitRequestRatio: {cpu: "2"}}]`, container(`{requests: {cpu: 4E}, limits: {cpu: 9E}}`),
			"cpu max limit to request ratio per Container is 2, but provided ratio is 2.250000",
		},
		{
			`[{type: Container, max: {cpu: "1"}}]`,
			`{initContainers: [{name: i, resources: {limits: {cpu: 2}}}], containers: [{name: c, resources: ` +
				`{limits: {cpu: 1}}}]}`,
			"maximum cpu usage per Container is 1, but limit is 2",
		},
		{
			`[{type: Pod, max: {cpu: "2"}}]`,
			`{containers: [{resources: {limits: {cpu: 1}}}, {resources: {limits: {cpu: 1100m}}}]}`,
			"maximum cpu usage per Pod is 2, but limit is 2100m",
		},
		{ // before the containers, beside no sidecar
			`[{type: Pod, max: {cpu: "2"}}]`,
			`{initContainers: [{resources: {limits: {cpu: 2}}}, {restartPolicy: Always, resources: {limits: {cpu: 1}}}], ` +
				`containers: [{resources: {limits: {cpu: 1}}}]}`, "",
		},
		{ // beside a sidecar
			`[{type: Pod, max: {cpu: "2"}}]`,
			`{initContainers: [{restartPolicy: Always, resources: {limits: {cpu: 1}}}, {resources: {limits: {cpu: 1500m}}}], ` +
				`containers: [{resources: {limits: {cpu: 1}}}]}`, "maximum cpu usage per Pod is 2, but limit is 2500m",
		},
		{ // two sidecars
			`[{type: Pod, max: {cpu: "2"}}]`,
			`{initContainers: [{restartPolicy: Always, resources: {limits: {cpu: 1}}}, {restartPolicy: Always, resources: ` +
				`{limits: {cpu: 1}}}], containers: [{resources: {limits: {cpu: 500m}}}]}`,
			"maximum cpu usage per Pod is 2, but limit is 2500m",
		},
		{ // what the pod says itself
			`[{type: Pod, max: {cpu: "2", memory: 1Gi}}]`,
			`{resources: {limits: {cpu: 1, memory: 2Gi, hugepages-2Mi: 2Mi}}, containers: [{resources: {limits: {cpu: 3}}}]}`,
			"maximum memory usage per Pod is 1Gi, but limit is 2Gi",
		},
		{
			`[{type: Pod, max: {hugepages-2Mi: 1Mi}}]`, `{resources: {limits: {hugepages-2Mi: 2Mi}}, containers: [{}]}`,
			"maximum hugepages-2Mi usage per Pod is 1Mi.  No limit is specified",
		},
		{ // overhead does not count
			`[{type: Pod, max: {cpu: "1"}}]`, `{overhead: {cpu: 1}, containers: [{resources: {limits: {cpu: 1}}}]}`, "",
		},
		{`[{type: PersistentVolumeClaim, max: {cpu: "1"}}, {type: example.com/Other, max: {cpu: "1"}}]`, container(`{}`), ""},
	} {
		table := limits.Ranges()
		pluginstest.Fill(t, table, limited("l", c.limits))
		err := pluginstest.Of(limits.LimitRanger(table), ofPods).About(t, pluginstest.Tree(t, pod+c.spec), nil)
		want := ""
		if c.want != "" {
			want = `pods "p" is forbidden: ` + c.want
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s\n%s: %v\nwant %s", c.limits, c.spec, err, want)
		}
	}
}

func TestClaimsKeepToTheLimits(t *testing.T) {
	table := limits.Ranges()
	pluginstest.Fill(t, table, limited("l", `[{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 2Gi}}]`))
	asked := pluginstest.Of(limits.LimitRanger(table), ofClaims)
	sized := func(size string) string {
		return claim + "{resources: {requests: {storage: " + size + "}, limits: {storage: 9Gi}}}"
	}
	const head = `persistentvolumeclaims "c" is forbidden: `
	for size, want := range map[string]string{
		"1Gi": "", "2048Mi": "",
		"1023Mi": head + "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1023Mi",
		"3Gi":    head + "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
	} {
		for _, old := range []string{"", sized("1Gi")} {
			now, before := pluginstest.Tree(t, sized(size)), pluginstest.Tree(t, sized("1Gi"))
			if old == "" {
				before = nil
			}
			err := asked.About(t, now, before)
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("%s: %v, want %q", size, err, want)
			}
		}
	}
	if err := asked.About(t, pluginstest.Tree(t, claim+"{}"), nil); err == nil || err.Error() != head+
		"[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, "+
		"maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]" {
		t.Errorf("without a size: %v", err)
	}
	leaving := pluginstest.Tree(t, strings.Replace(sized("9Gi"), "namespace: team",
		`namespace: team, deletionTimestamp: "2026-01-01T00:00:00Z"`, 1))
	if err := asked.About(t, leaving.DeepCopy(), leaving); err != nil {
		t.Errorf("one under deletion: %v", err)
	}
}

func TestTheFirstLimitRangeThatIsExceededIsNamed(t *testing.T) {
	table := limits.Ranges()
	item := func(most string) string { return `[{type: Container, max: {cpu: "` + most + `"}}]` }
	pluginstest.Fill(t, table, limited("c", item("1")), limited("b", item("2")), limited("a", item("9")))
	asked := pluginstest.Of(limits.LimitRanger(table), ofPods)
	ask := func() string {
		return fmt.Sprint(asked.About(t, pluginstest.Tree(t, pod+"{containers: [{resources: {limits: {cpu: 3}}}]}"), nil))
	}
	if got := ask(); !strings.HasSuffix(got, "is 2, but limit is 3") {
		t.Errorf("of three: %s", got)
	}
	of := table.Follows()[0]
	table.Change(of, pluginstest.Object(t, limited("b", item("2"))), true)
	if got := ask(); !strings.HasSuffix(got, "is 1, but limit is 3") {
		t.Errorf("without b: %s", got)
	}
	table.Change(of, pluginstest.Object(t, limited("c", item("5"))), false)
	if got := ask(); got != "<nil>" {
		t.Errorf("c is wider: %s", got)
	}
}

func TestALimitRangeThatCannotBeReadIsNotTakenForMissing(t *testing.T) {
	table := limits.Ranges()
	table.Unknown = func(_ kinds.GroupResource, namespace, name string) error {
		return fmt.Errorf("%s/l%s cannot be read", namespace, name)
	}
	err := pluginstest.Of(limits.LimitRanger(table), ofPods).About(t, pluginstest.Tree(t, pod+"{}"), nil)
	if err == nil || !strings.Contains(err.Error(), "there was an error enforcing limit ranges: team/l cannot be read") {
		t.Errorf("a pod is accepted: %v", err)
	}
}

// TestLimitRangesElsewhereCostNothing compares allocations, which do not depend on the machine.
func TestLimitRangesElsewhereCostNothing(t *testing.T) {
	cost := func(elsewhere int) float64 {
		table := limits.Ranges()
		var all []string
		for i := range elsewhere {
			all = append(all, strings.Replace(limited("l", `[{type: Container, default: {cpu: "1"}}]`), "namespace: team",
				fmt.Sprintf("namespace: team%d", i), 1))
		}
		pluginstest.Fill(t, table, all...)
		asked, sent := pluginstest.Of(limits.LimitRanger(table), ofPods), pluginstest.Tree(t, pod+"{containers: [{name: c}]}")
		return testing.AllocsPerRun(100, func() {
			if err := asked.About(t, sent, nil); err != nil {
				t.Errorf("ask: %v", err)
			}
		})
	}
	if none, many := cost(0), cost(500); many > none {
		t.Errorf("%v allocations without LimitRanges, %v with 500 elsewhere", none, many)
	}
}

func TestOddLimitRangesAndPodsDoNoHarm(t *testing.T) {
	if err := quick.Check(func(resource, quantity, text string, number int64) bool {
		table := limits.Ranges()
		stored := limited("l",
			fmt.Sprintf(`[{type: Container, max: {%q: %q}, default: {%[1]q: %[2]q}}, {type: Pod, min: {%[1]q: %[2]q}}]`,
				resource, quantity))
		pluginstest.Fill(t, table, stored)
		u := pluginstest.Tree(t, pod+"{containers: [{}]}")
		u.Object["spec"] = map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
			"limits": map[string]any{resource: number, text: text}, "requests": text,
		}}}}
		_ = pluginstest.Of(limits.LimitRanger(table), ofPods).About(t, u, nil) // whatever it is, it is no panic
		return true
	}, nil); err != nil {
		t.Errorf("check: %v", err)
	}
}

func BenchmarkLimitRanger(b *testing.B) {
	for name, items := range map[string]string{
		"none": "", "default": `[{type: Container, default: {cpu: "1", memory: 1Gi}, defaultRequest: {cpu: "1", memory: 1Gi}, ` +
			`max: {cpu: "2"}}]`,
	} {
		b.Run(name, func(b *testing.B) {
			table := limits.Ranges()
			if items != "" {
				pluginstest.Fill(b, table, limited("l", items))
			}
			asked := pluginstest.Of(limits.LimitRanger(table), ofPods)
			sent := pluginstest.Tree(b, pod+"{containers: [{name: c, image: i}]}")
			b.ReportAllocs()
			for b.Loop() {
				if err := asked.About(b, sent.DeepCopy(), nil); err != nil {
					b.Fatalf("ask: %v", err)
				}
			}
		})
	}
}
