package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUpdatesOfImmutableFieldsAreRefused(t *testing.T) {
	tests := []struct{ plural, before, patch, want string }{
		{
			"configmaps", `{"immutable":true}`, `{"immutable":true,"data":{"new":"x"}}`,
			"data: Forbidden: field is immutable when `immutable` is set",
		},
		{"configmaps", `{"immutable":true}`, `{}`, "immutable: Forbidden: field is immutable when `immutable` is set"},
		{"secrets", `{}`, `{"type":"example.com/other"}`, `type: Invalid value: "example.com/other": field is immutable`},
		{
			"deployments", `{}`,
			`{"spec":{"selector":{"matchLabels":{"app":"b"}},"template":{"metadata":{"labels":{"app":"b"}}}}}`,
			`field is immutable`,
		},
		{
			"statefulsets", `{}`, `{"spec":{"serviceName":"other"}}`,
			`spec.serviceName: Invalid value: "other": field is immutable`,
		},
		{"jobs", `{}`, `{"spec":{"completions":3}}`, `spec.completions: Invalid value: 3: field is immutable`},
		{"jobs", `{}`, `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`, `spec.template: Invalid value`},
		{
			"pods", `{}`, `{"spec":{"hostname":"a"}}`,
			"spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
		},
		{"pods", `{}`, `{"spec":{"nodeName":"node-1"}}`, `spec: Forbidden: pod updates may not change`}, // a binding does
		{
			"pods", `{}`, `{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"unconfined"}}}`,
			`may not add AppArmor annotations`,
		},
		{
			"pods", `{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"unconfined"}}}`, `{}`,
			`may not remove or update AppArmor annotations`,
		},
		{"pods", `{}`, `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"a"}}}`, `may not add mirror pod annotation`},
		{
			"csidrivers", `{}`, `{"spec":{"attachRequired":true}}`,
			`spec.attachedRequired: Invalid value: true: field is immutable`,
		},
		{
			"csinodes", `{}`, `{"spec":{"drivers":[{"name":"disk.example.org","nodeID":"other"}]}}`,
			`spec.drivers: Invalid value: "disk.example.org": field is immutable`,
		},
		{"volumeattachments", `{}`, `{"spec":{"nodeName":"node-2"}}`, `field is immutable`},
		{
			"csistoragecapacities", `{}`, `{"storageClassName":"other"}`,
			`storageClassName: Invalid value: "other": field is immutable`,
		},
		{
			"volumeattributesclasses", `{}`, `{"driverName":"other"}`,
			`driverName: Forbidden: updates to driverName are forbidden.`,
		},
		{
			"servicecidrs", `{}`, `{"spec":{"cidrs":["10.99.0.0/16"]}}`,
			`spec.cidrs[0]: Invalid value: "10.99.0.0/16": field is immutable`,
		},
		{
			"resourcequotas", `{}`, `{"spec":{"scopes":["Terminating"]}}`,
			`spec.scopes: Invalid value: ["Terminating"]: field is immutable`,
		},
		{
			"persistentvolumeclaims", `{}`, `{"spec":{"volumeMode":"Block"}}`,
			`volumeMode: Invalid value: "Block": field is immutable`,
		},
		{"ipaddresses", `{}`, `{"spec":{"parentRef":{"name":"other"}}}`, `field is immutable`},
		{
			"clustertrustbundles", `{}`, `{"spec":{"signerName":"example.org/other"}}`,
			`spec.signerName: Invalid value: "example.org/other": field is immutable`,
		},
		{"podcertificaterequests", `{}`, `{"spec":{"podName":"other"}}`, `field is immutable`},
		{
			"storageversionmigrations", `{"status":{"resourceVersion":"5"}}`, `{"status":{"resourceVersion":"6"}}`,
			`status.resourceVersion: Invalid value: "6": field is immutable`,
		},
		{"resourceclaims", `{}`, `{"spec":{"devices":{"constraints":null}}}`, `field is immutable`},
		{
			"resourceclaims", `{}`, `{"status":{"reservedFor":[{"resource":"pods","name":"a","uid":"1"}]}}`,
			"status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
		},
		{"resourceclaimtemplates", `{}`, `{"spec":{"metadata":{"labels":{"a":"b"}}}}`, `field is immutable`},
		{
			"resourceslices", `{}`, `{"spec":{"pool":{"name":"other"}}}`,
			`spec.pool.name: Invalid value: "other": field is immutable`,
		},
		{"runtimeclasses", `{}`, `{"handler":"runc"}`, `handler: Invalid value: "runc": field is immutable`},
		{"pods", `{"spec":{"nodeName":"a"}}`, `{"spec":{"nodeName":"b"}}`, `spec: Forbidden: pod updates may not change`},
		{
			"rolebindings", `{}`, `{"roleRef":{"name":"other"}}`,
			`roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: field is immutable`,
		},
		{"priorityclasses", `{}`, `{"value":5}`, `value: Forbidden: may not be changed in an update.`},
		{
			"storageclasses", `{}`, `{"parameters":{"a":"b"}}`,
			`parameters: Invalid value: {"a":"b","type":"ssd"}: field is immutable`,
		},
		{
			"persistentvolumeclaims", `{}`, `{"spec":{"accessModes":["ReadWriteMany"]}}`,
			`spec: Forbidden: spec is immutable after creation`,
		},
		{
			"services", `{"spec":{"clusterIP":"10.0.0.1"}}`, `{"spec":{"clusterIP":"10.0.0.2"}}`,
			`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`,
		},
		{
			"customresourcedefinitions", `{}`,
			`{"spec":{"scope":"Cluster","names":{"plural":"bars"}},"status":{"conditions":[]}}`,
			`spec.names.plural: Invalid value: "bars": field is immutable`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.plural+tt.patch, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			errs, _ := r.Type.Validate(changed(t, r, tt.patch), changed(t, r, tt.before))
			if aggregate := errs.ToAggregate(); aggregate == nil || !strings.Contains(aggregate.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", aggregate, tt.want)
			}
		})
	}
}

func TestUpdatesThatUpstreamAllowsAreValid(t *testing.T) {
	tests := []struct{ plural, before, patch string }{
		{"pods", `{}`, `{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}`},
		{
			"pods", `{"spec":{"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}]}}`,
			`{"spec":{"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]}}`,
		},
		{"pods", `{"spec":{"schedulingGates":[{"name":"a"}]}}`, `{"spec":{"nodeSelector":{"a":"b"}}}`},
		{"pods", `{}`, `{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Running"}}`},
		{
			"pods", `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"x"}}}`,
			`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"y"}}}`,
		},
		{"statefulsets", `{}`, `{"spec":{"replicas":5}}`},
		{"jobs", `{"spec":{"suspend":true}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`},
		{"jobs", `{}`, `{"spec":{"parallelism":3,"completions":1}}`},
		{"persistentvolumeclaims", `{}`, `{"spec":{"volumeName":"task-pv"}}`},
		{"persistentvolumeclaims", `{"status":{"phase":"Bound"}}`, `{"spec":{"resources":{"requests":{"storage":"9Gi"}}}}`},
		{"deployments", `{}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.plural+tt.patch, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			if errs, _ := r.Type.Validate(changed(t, r, tt.patch), changed(t, r, tt.before)); len(errs) > 0 {
				t.Errorf("got %v, want none", errs.ToAggregate())
			}
		})
	}
}

func TestTerminatingNamespaceLosesItsFinalizer(t *testing.T) {
	r := byPlural(t, "namespaces")
	u := changed(t, r,
		`{"metadata":{"deletionTimestamp":"2026-11-20T10:00:00Z"},"spec":{"finalizers":[]},"status":{"phase":"Terminating"}}`)
	if f, _, _ := unstructured.NestedSlice(u.Object, "spec", "finalizers"); len(f) > 0 {
		t.Errorf("got finalizers %v, want none", f)
	}
}
