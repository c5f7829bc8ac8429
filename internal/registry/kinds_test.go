package registry_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/patch"
	"github.com/gapless-io/gapless/internal/wire"
)

// kindRow is what upstream's strategies make of the metadata of one kind.
type kindRow struct {
	// content changes what the object says besides metadata and status; "" when
	// nothing of it can be changed.
	content string
	// generations are the object's when it is new, then after content, annotations
	// and labels were changed, one after the other.
	generations [4]int64
	// status is a change of the status, and kept are the members of metadata that the
	// same request cannot change.
	status string
	kept   []string
}

const condition = `{"conditions":[{"type":"Tested","status":"True","reason":"Test","message":"m",` +
	`"lastTransitionTime":"2020-01-01T00:00:00Z"}]}`

// gated is a status that nothing can be written to: all that it has is behind feature
// gates that are off.
const gated = `{}`

// kindRows are the rules of pkg/registry/*/strategy.go in Kubernetes 1.37, by resource.
// A row of a kind that is not served counts when it is.
func kindRows() map[string]kindRow {
	var (
		none = [4]int64{0, 0, 0, 0}
		spec = [4]int64{1, 2, 2, 2}
		all  = []string{"labels", "annotations", "finalizers", "ownerReferences"}
	)
	return map[string]kindRow{
		"configmaps":             {`{"data":{"x":"y"}}`, none, ``, nil},
		"endpoints":              {`{"subsets":[{"addresses":[{"ip":"10.9.9.9"}]}]}`, none, ``, nil},
		"events":                 {`{"message":"x"}`, none, ``, nil},
		"limitranges":            {`{"spec":{"limits":[{"type":"Pod","max":{"cpu":"9"}}]}}`, none, ``, nil},
		"namespaces":             {``, none, condition, nil},
		"nodes":                  {`{"spec":{"unschedulable":true}}`, none, condition, nil},
		"persistentvolumes":      {`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, none, `{"message":"m"}`, nil},
		"persistentvolumeclaims": {``, none, condition, nil},
		"pods":                   {`{"spec":{"activeDeadlineSeconds":9}}`, spec, condition, []string{"ownerReferences"}},
		"podtemplates":           {`{"template":{"spec":{"hostname":"x"}}}`, spec, ``, nil},
		"replicationcontrollers": {`{"spec":{"replicas":9}}`, spec, `{"replicas":9}`, nil},
		"resourcequotas":         {`{"spec":{"hard":{"pods":"9"}}}`, none, `{"used":{"pods":"1"}}`, nil},
		"secrets":                {`{"data":{"x":"eQ=="}}`, none, ``, nil},
		"serviceaccounts":        {`{"secrets":[{"name":"x"}]}`, none, ``, nil},
		"services":               {`{"spec":{"selector":{"x":"y"}}}`, none, condition, nil},

		"controllerrevisions.apps": {`{"revision":9}`, none, ``, nil},
		"daemonsets.apps":          {`{"spec":{"minReadySeconds":9}}`, spec, `{"numberReady":9}`, nil},
		"deployments.apps":         {`{"spec":{"replicas":9}}`, [4]int64{1, 2, 3, 3}, `{"replicas":9}`, []string{"labels"}},
		"replicasets.apps":         {`{"spec":{"replicas":9}}`, spec, `{"replicas":9}`, nil},
		"statefulsets.apps":        {`{"spec":{"replicas":9}}`, spec, `{"replicas":9}`, nil},
		"cronjobs.batch": {
			`{"spec":{"schedule":"9 9 * * *"}}`, spec, `{"lastScheduleTime":"2020-01-01T00:00:00Z"}`, nil,
		},
		"jobs.batch": {`{"spec":{"parallelism":9}}`, spec, `{"active":9}`, nil},

		"horizontalpodautoscalers.autoscaling": {`{"spec":{"maxReplicas":99}}`, spec, `{"currentReplicas":9}`, nil},
		"poddisruptionbudgets.policy": {
			`{"spec":{"selector":{"matchLabels":{"x":"y"}}}}`, spec, `{"currentHealthy":9}`, nil,
		},
		"customresourcedefinitions.apiextensions.k8s.io": {`{"spec":{"names":{"shortNames":["xy"]}}}`, spec, condition, nil},
		"ingresses.networking.k8s.io": {
			`{"spec":{"ingressClassName":"x"}}`, spec, `{"loadBalancer":{"ingress":[{"ip":"10.9.9.9"}]}}`, nil,
		},
		"ingressclasses.networking.k8s.io":  {`{"spec":{"parameters":{"kind":"X","name":"y"}}}`, spec, ``, nil},
		"networkpolicies.networking.k8s.io": {`{"spec":{"podSelector":{"matchLabels":{"x":"y"}}}}`, spec, ``, nil},
		"endpointslices.discovery.k8s.io": {
			`{"endpoints":[{"addresses":["10.9.9.9"]}]}`, [4]int64{1, 2, 2, 3}, ``, nil,
		},
		"leases.coordination.k8s.io":             {`{"spec":{"holderIdentity":"x"}}`, none, ``, nil},
		"storageclasses.storage.k8s.io":          {`{"allowVolumeExpansion":null}`, none, ``, nil},
		"csidrivers.storage.k8s.io":              {`{"spec":{"requiresRepublish":true}}`, [4]int64{0, 1, 1, 1}, ``, nil},
		"csistoragecapacities.storage.k8s.io":    {`{"capacity":"9Gi"}`, none, ``, nil},
		"volumeattributesclasses.storage.k8s.io": {``, none, ``, nil},
		"servicecidrs.networking.k8s.io": {
			`{"spec":{"cidrs":["10.97.0.0/16","fd00::/108"]}}`, none, condition, all,
		},
		"ipaddresses.networking.k8s.io":           {``, none, ``, nil},
		"clustertrustbundles.certificates.k8s.io": {``, none, ``, nil},
		"podcertificaterequests.certificates.k8s.io": {
			``, none,
			`{"conditions":[{"type":"Denied","status":"True","reason":"Test","message":"m",` +
				`"lastTransitionTime":"2020-01-01T00:00:00Z"}]}`, all,
		},
		"deviceclasses.resource.k8s.io":          {`{"spec":{"extendedResourceName":"x.io/y"}}`, spec, ``, nil},
		"devicetaintrules.resource.k8s.io":       {`{"spec":{"taint":{"effect":"NoSchedule"}}}`, spec, condition, all},
		"resourceclaims.resource.k8s.io":         {``, none, `{"allocation":{"devices":{}}}`, all},
		"resourceclaimtemplates.resource.k8s.io": {``, none, ``, nil},
		"resourceslices.resource.k8s.io":         {`{"spec":{"pool":{"generation":9}}}`, spec, ``, nil},

		"apiservices.apiregistration.k8s.io": {`{"spec":{"groupPriorityMinimum":7}}`, none, condition, all},
		"flowschemas.flowcontrol.apiserver.k8s.io": {
			`{"spec":{"matchingPrecedence":7}}`, spec, condition, all,
		},
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {
			`{"spec":{"limited":{"nominalConcurrencyShares":7}}}`, spec, condition, all,
		},
		"storageversionmigrations.storagemigration.k8s.io": {``, none, `{"resourceVersion":"9"}`, all},

		"mutatingwebhookconfigurations.admissionregistration.k8s.io":   {`{"webhooks":[]}`, spec, ``, nil},
		"validatingwebhookconfigurations.admissionregistration.k8s.io": {`{"webhooks":[]}`, spec, ``, nil},
		"mutatingadmissionpolicies.admissionregistration.k8s.io": {
			`{"spec":{"reinvocationPolicy":"Never"}}`, spec, ``, nil,
		},
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io": {`{"spec":{"policyName":"x"}}`, spec, ``, nil},
		"validatingadmissionpolicies.admissionregistration.k8s.io": {
			`{"spec":{"failurePolicy":"Ignore"}}`, spec, condition, all,
		},
		"validatingadmissionpolicybindings.admissionregistration.k8s.io": {`{"spec":{"policyName":"x"}}`, spec, ``, nil},

		"csinodes.storage.k8s.io": {
			`{"spec":{"drivers":[{"name":"x.io","nodeID":"y"}]}}`, none, gated, all,
		},
		"volumeattachments.storage.k8s.io":               {``, none, `{"attached":true}`, all},
		"runtimeclasses.node.k8s.io":                     {`{"scheduling":{"nodeSelector":{"x":"y"}}}`, none, ``, nil},
		"certificatesigningrequests.certificates.k8s.io": {``, none, condition, nil},
		"priorityclasses.scheduling.k8s.io":              {`{"description":"x"}`, [4]int64{1, 1, 1, 1}, ``, nil},
		"clusterroles.rbac.authorization.k8s.io":         {`{"rules":[]}`, none, ``, nil},
		"clusterrolebindings.rbac.authorization.k8s.io":  {`{"subjects":[]}`, none, ``, nil},
		"roles.rbac.authorization.k8s.io":                {`{"rules":[]}`, none, ``, nil},
		"rolebindings.rbac.authorization.k8s.io":         {`{"subjects":[]}`, none, ``, nil},
	}
}

// eachKind creates the manifest of every built-in kind, and hands it on with its row.
func eachKind(t *testing.T, check func(t *testing.T, s *server, at kinds.Target, row kindRow)) {
	t.Helper()
	s := serve(t)
	rows := kindRows()
	for _, r := range builtin.Catalog().Stored() {
		t.Run(r.GR().String(), func(t *testing.T) {
			row, known := rows[r.GR().String()]
			if !known {
				t.Fatal("kindRows does not say what upstream's strategy of this kind does")
			}
			body := builtintest.Manifest(t, r)
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(body); err != nil {
				t.Fatalf("read the manifest: %v", err)
			}
			var err error
			at := kinds.Target{Resource: r}
			if r.Namespaced {
				at.Namespace = "default"
				u.SetNamespace("default")
			}
			// None of these may be what decides about the writes that follow.
			u.SetLabels(nil)
			u.SetFinalizers(nil)
			if body, err = u.MarshalJSON(); err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			inner := *s
			inner.t = t
			at.Name = inner.create(at, string(body)).Key().Name
			check(t, &inner, at, row)
		})
	}
}

func TestGenerationOfEveryKindCountsAsUpstream(t *testing.T) {
	eachKind(t, func(t *testing.T, s *server, at kinds.Target, row kindRow) {
		got := [4]int64{s.get(at).Generation()}
		for i, change := range []string{
			row.content, `{"metadata":{"annotations":{"x":"y"}}}`, `{"metadata":{"labels":{"x":"y"}}}`,
		} {
			if change == "" {
				got[i+1] = got[i]
				continue
			}
			was := s.get(at)
			o := s.merge(at, change)
			if o.ResourceVersion() == was.ResourceVersion() {
				t.Errorf("%s changes nothing", change)
			}
			if again := s.update(at, string(o.JSON())); again.Generation() != o.Generation() {
				t.Errorf("the object itself as an update made generation %d of %d", again.Generation(), o.Generation())
			}
			got[i+1] = o.Generation()
		}
		if diff := cmp.Diff(row.generations, got); diff != "" {
			t.Errorf("generations when new, and after changes of the content, of annotations and of labels (-want +got):\n%s",
				diff)
		}
		if !at.Resource.HasStatus {
			return
		}
		status := at
		status.Subresource = "status"
		if o := s.merge(status,
			`{"status":`+row.status+`,"metadata":{"annotations":{"z":"z"},"labels":{"z":"z"}}}`); o.Generation() != got[3] {
			t.Errorf("a write of the status made generation %d of %d", o.Generation(), got[3])
		}
	})
}

// TestStatusUpdateOfEveryKindKeepsMetadataAsUpstream writes status, spec and all
// that can be written of metadata through the status, by patch and by update.
func TestStatusUpdateOfEveryKindKeepsMetadataAsUpstream(t *testing.T) {
	eachKind(t, func(t *testing.T, s *server, at kinds.Target, row kindRow) {
		if (row.status != "") != at.Resource.HasStatus {
			t.Fatalf("a status in the row: %t; in the catalog: %t", row.status != "", at.Resource.HasStatus)
		}
		if !at.Resource.HasStatus {
			return
		}
		status := at
		status.Subresource = "status"
		for i, write := range []func(change string) *wire.Object{
			func(change string) *wire.Object { return s.merge(status, change) },
			func(change string) *wire.Object {
				body, _, err := patch.New(mergePatch(change)).Apply(s.get(at).JSON(), nil)
				if err != nil {
					t.Fatalf("apply make: %v", err)
				}
				return s.update(status, string(body))
			},
		} {
			value := []string{"patched", "updated"}[i]
			was := s.get(at)
			changes := map[string]any{
				"labels":          map[string]any{"x.io/l": value},
				"annotations":     map[string]any{"x.io/a": value},
				"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": value, "uid": value}},
				"finalizers":      []any{"x.io/" + value},
			}
			o := write(patchOf(t, map[string]any{"metadata": changes, "status": json.RawMessage(row.status)}, row.content))
			for name, wanted := range changes {
				got, before := field(t, o, "metadata", name), field(t, was, "metadata", name)
				kept := slices.Contains(row.kept, name)
				if kept && !cmp.Equal(before, got) || !kept && !contains(got, wanted) {
					t.Errorf("%s: %s is %v after %v, written was %v, kept it should be: %t",
						value, name, got, before, wanted, kept)
				}
			}
			if !cmp.Equal(rest(t, was), rest(t, o)) {
				t.Errorf("%s: the write of the status changed %v to %v", value, rest(t, was), rest(t, o))
			}
		}
	})
}

// TestUpdateOfEveryKindKeepsTheStatus writes the status through the object.
func TestUpdateOfEveryKindKeepsTheStatus(t *testing.T) {
	eachKind(t, func(t *testing.T, s *server, at kinds.Target, row kindRow) {
		if !at.Resource.HasStatus || row.status == gated {
			return
		}
		was := field(t, s.get(at), "status")
		ignored := field(t, s.merge(at, `{"status":`+row.status+`}`), "status")
		if diff := cmp.Diff(was, ignored); diff != "" {
			t.Errorf("a patch of the object changed its status:\n%s", diff)
		}
		status := at
		status.Subresource = "status"
		written := field(t, s.merge(status, `{"status":`+row.status+`}`), "status")
		if cmp.Equal(was, written) {
			t.Errorf("a patch of the status changed nothing in %v", was)
		}
		is := field(t, s.merge(at, `{"status":null,"metadata":{"labels":{"x":"y"}}}`), "status")
		if diff := cmp.Diff(written, is); diff != "" {
			t.Errorf("a patch of the object removed its status:\n%s", diff)
		}
	})
}

// patchOf merges a patch with a second one, which may be empty.
func patchOf(t *testing.T, first map[string]any, second string) string {
	t.Helper()
	merged := map[string]any{}
	if second != "" {
		if err := json.Unmarshal([]byte(second), &merged); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
	}
	maps.Copy(merged, first)
	text, err := json.Marshal(merged)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return string(text)
}

// contains reports whether got has all of wanted, which is an object or a list.
func contains(got, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		o, _ := got.(map[string]any)
		for name, value := range wanted {
			if !cmp.Equal(o[name], value) {
				return false
			}
		}
		return true
	case []any:
		list, _ := got.([]any)
		return !slices.ContainsFunc(wanted, func(item any) bool {
			return !slices.ContainsFunc(list, func(other any) bool { return cmp.Equal(other, item) })
		})
	}
	return false
}

// rest is an object without metadata and status.
func rest(t *testing.T, o *wire.Object) map[string]any {
	t.Helper()
	tree, _ := field(t, o).(map[string]any)
	delete(tree, "metadata")
	delete(tree, "status")
	return tree
}
