package builtin_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
)

// changed returns the manifest of a kind with a merge patch applied to it.
func changed(t *testing.T, r *kinds.Resource, patch string) *unstructured.Unstructured {
	t.Helper()
	body, err := jsonpatch.MergePatch(builtintest.Manifest(t, r), []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return builtintest.Written(t, r, body)
}

func byPlural(t *testing.T, plural string) *kinds.Resource {
	t.Helper()
	all := builtin.Catalog().Resources()
	i := slices.IndexFunc(all, func(r *kinds.Resource) bool { return r.Plural == plural })
	if i < 0 {
		t.Fatalf("no resource %s", plural)
	}
	return all[i]
}

func TestInvalidCreationsAreRefused(t *testing.T) {
	tests := []struct{ plural, patch, want string }{
		{"configmaps", `{"data":{"a/b":""}}`, `data[a/b]: Invalid value: "a/b": a valid config key must consist of`},
		{"configmaps", `{"data":{"logo":""}}`, `data[logo]: Invalid value: "logo": duplicate of key present in binaryData`},
		{"configmaps", `{"metadata":{"name":"Upper"}}`, `metadata.name: Invalid value: "Upper": a lowercase RFC 1123 subdomain`},
		{"namespaces", `{"metadata":{"name":"a.b"}}`, `metadata.name: Invalid value: "a.b": must not contain dots`},
		{"services", `{"metadata":{"name":"a.b"}}`, `metadata.name: Invalid value: "a.b": must not contain dots`},
		{"roles", `{"metadata":{"name":"a/b"}}`, `metadata.name: Invalid value: "a/b": may not contain '/'`},
		{"cronjobs", `{"metadata":{"name":"` + strings.Repeat("a", 53) + `"}}`, `must be no more than 52`},
		{
			"cronjobs", `{"spec":{"schedule":"* *"}}`,
			`spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]`,
		},
		{"deployments", `{"spec":{"selector":null}}`, `spec.selector: Required value`},
		{"deployments", `{"spec":{"selector":{"matchLabels":null}}}`, `empty selector is invalid for deployment`},
		{
			"deployments", `{"spec":{"selector":{"matchLabels":{"app":"b"}}}}`,
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
		},
		{"deployments", `{"spec":{"replicas":-1}}`, `spec.replicas: Invalid value: -1: must be greater than or equal to 0`},
		{
			"deployments", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":{}}}}`,
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
		},
		{
			"deployments", `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`,
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
		},
		{
			"deployments", `{"spec":{"template":{"spec":{"containers":[{"name":"A b","image":""}]}}}}`,
			`spec.template.spec.containers[0].name: Invalid value: "A b"`,
		},
		{
			"deployments", `{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`,
			`spec.template.spec.containers[0].image: Required value`,
		},
		{"deployments", `{"spec":{"template":{"spec":{"containers":null}}}}`, `spec.template.spec.containers: Required value`},
		{
			"pods", `{"spec":{"containers":[{"name":"a","image":"a","volumeMounts":[{"name":"none","mountPath":"/a"}]}]}}`,
			`spec.containers[0].volumeMounts[0].name: Not found: "none"`,
		},
		{
			"pods", `{"spec":{"containers":[{"name":"a","image":"a","ports":[{"containerPort":70000}]}]}}`,
			`spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`,
		},
		{
			"pods", `{"spec":{"containers":[{"name":"a","image":"a"},{"name":"a","image":"b"}]}}`,
			`spec.containers[1].name: Duplicate value: "a"`,
		},
		{
			"pods",
			`{"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}}]}}`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
		},
		{
			"pods", `{"spec":{"volumes":[{"name":"config","configMap":{"name":"a"},"emptyDir":{}}]}}`,
			`may not specify more than 1 volume type`,
		},
		{
			"pods", `{"spec":{"restartPolicy":"Sometimes"}}`,
			`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`,
		},
		{
			"pods",
			`{"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"A",` +
				`"valueFrom":{"fieldRef":{"fieldPath":"spec.nowhere"}}}]}]}}`,
			`env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nowhere": error converting fieldPath: field ` +
				`label not supported`,
		},
		{
			"pods", `{"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"A","valueFrom":{}}]}]}}`,
			`env[0].valueFrom: Invalid value: "": must specify one of`,
		},
		{
			"pods", `{"spec":{"tolerations":[{"key":"a","operator":"Exists","value":"b"}]}}`,
			`spec.tolerations[0].operator: Invalid value: "b": value must be empty`,
		},
		{
			"pods",
			`{"spec":{"containers":[{"name":"a","image":"a","livenessProbe":{"exec":{"command":["a"]},"successThreshold":2}}]}}`,
			`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`,
		},
		{
			"pods",
			`{"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"example.com/gpu":"2"},` +
				`"requests":{"example.com/gpu":"1"}}}]}}`, `must be equal to example.com/gpu limit of 2`,
		},
		{
			"pods",
			`{"spec":{"volumes":[{"name":"disk","iscsi":{"targetPortal":"a","iqn":"iqn.no","lun":0}}],` +
				`"containers":[{"name":"a","image":"a"}]}}`,
			`spec.volumes[0].iscsi.iqn: Invalid value: "iqn.no": must be valid format`,
		},
		{
			"pods", `{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"loose"}}}`,
			`metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "loose": must be a ` +
				`valid seccomp profile`,
		},
		{
			"pods", `{"metadata":{"annotations":{"container.seccomp.security.alpha.kubernetes.io/a":"localhost/../b"}}}`,
			`metadata.annotations.container.seccomp.security.alpha.kubernetes.io/a: Invalid value: "../b": must not contain '..'`,
		},
		{
			"pods",
			`{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}},` +
				`"spec":{"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}}`,
			`spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match`,
		},
		{
			"pods", `{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/none":"unconfined"}}}`,
			`metadata.annotations[container.apparmor.security.beta.kubernetes.io/none]: Invalid value: "none": ` +
				`container not found`,
		},
		{
			"pods",
			`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"loose"}},` +
				`"spec":{"containers":[{"name":"a","image":"a"}]}}`,
			`Invalid value: "loose": invalid AppArmor profile name: "loose"`,
		},
		{
			"pods",
			`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"localhost/b"}},` +
				`"spec":{"containers":[{"name":"a","image":"a","securityContext":{"appArmorProfile":{"type":"Localhost",` +
				`"localhostProfile":"c"}}}]}}`,
			`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation ` +
				`and field must match`,
		},
		{
			"pods", `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"a"}}}`,
			`metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "a": must set spec.nodeName if mirror ` +
				`pod annotation is set`,
		},
		{
			"pods", `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"+1"}}}`,
			`Invalid value: "+1": must be a 32bit integer`,
		},
		{
			"deployments",
			`{"spec":{"template":{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"loose"}}}}}`,
			`spec.template.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "loose"`,
		},
		{
			"services", `{"spec":{"healthCheckNodePort":30000}}`,
			"spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and " +
				"`externalTrafficPolicy` is 'Local'",
		},
		{
			"statefulsets", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0}}}}`,
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0`,
		},
		{
			"daemonsets",
			`{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":1}}}}`,
			`maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero`,
		},
		{
			"ingresses", `{"spec":{"defaultBackend":{"service":{"name":"a","port":{}}}}}`,
			`spec.defaultBackend: Required value: port name or number is required`,
		},
		{
			"endpointslices", `{"addressType":"IPv4","endpoints":[{"addresses":["169.254.0.1"]}]}`,
			`endpoints[0].addresses[0]: Invalid value: "169.254.0.1": may not be in the link-local range`,
		},
		{
			"persistentvolumes", `{"spec":{"hostPath":null,"local":{"path":"/a"}}}`,
			`spec.nodeAffinity: Required value: Local volume requires node affinity`,
		},
		{
			"nodes", `{"spec":{"taints":[{"key":"a","effect":"Sometimes"}]}}`,
			`metadata.taints[0].effect: Unsupported value: "Sometimes"`,
		},
		{
			"limitranges", `{"spec":{"limits":[{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"}}]}}`,
			`spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`,
		},
		{
			"jobs", `{"spec":{"template":{"spec":{"restartPolicy":null}}}}`,
			`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		},
		{
			"jobs", `{"spec":{"completionMode":"Indexed","completions":null,"parallelism":1}}`,
			`spec.completions: Required value: when completion mode is Indexed`,
		},
		{"services", `{"spec":{"ports":null}}`, `spec.ports: Required value`},
		{"services", `{"spec":{"ports":[{"port":80},{"port":81}]}}`, `spec.ports[0].name: Required value`},
		{
			"services", `{"spec":{"ports":[{"port":0}]}}`,
			`spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
		},
		{
			"services", `{"spec":{"type":"Magic"}}`,
			`spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`,
		},
		{"secrets", `{"type":"kubernetes.io/tls"}`, `data[tls.crt]: Required value`},
		{
			"events", `{"involvedObject":{"namespace":"other"}}`,
			`involvedObject.namespace: Invalid value: "other": does not match event.namespace`,
		},
		{"leases", `{"spec":{"leaseDurationSeconds":0}}`, `spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`},
		{
			"persistentvolumeclaims", `{"spec":{"accessModes":null}}`,
			`spec.accessModes: Required value: at least 1 access mode is required`,
		},
		{"persistentvolumes", `{"spec":{"capacity":null}}`, `spec.capacity: Required value`},
		{"persistentvolumes", `{"spec":{"hostPath":null}}`, `spec: Required value: must specify a volume type`},
		{"ingresses", `{"spec":{"rules":null}}`, "either `defaultBackend` or `rules` must be specified"},
		{"networkpolicies", `{"spec":{"policyTypes":["Sideways"]}}`, `spec.policyTypes[0]: Unsupported value: "Sideways"`},
		{"poddisruptionbudgets", `{"spec":{"maxUnavailable":1}}`, `minAvailable and maxUnavailable cannot be both set`},
		{
			"horizontalpodautoscalers", `{"spec":{"maxReplicas":0}}`,
			`spec.maxReplicas: Required value: must be set and greater than 0`,
		},
		{"priorityclasses", `{"value":2000000000}`, `maximum allowed value of a user defined priority`},
		{
			"roles", `{"rules":[{"apiGroups":[""],"resources":["pods"]}]}`,
			`rules[0].verbs: Required value: verbs must contain at least one value`,
		},
		{
			"rolebindings", `{"roleRef":{"kind":"Pod"}}`,
			`roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"`,
		},
		{"endpointslices", `{"addressType":"IPv5"}`, `addressType: Unsupported value: "IPv5"`},
		{"certificatesigningrequests", `{"spec":{"request":"eA=="}}`, `PEM block type must be CERTIFICATE REQUEST`},
		{"certificatesigningrequests", `{"spec":{"usages":["tea"]}}`, `spec.usages[0]: Unsupported value: "tea"`},
		{
			"certificatesigningrequests", `{"spec":{"signerName":"nobody"}}`,
			`spec.signerName: Invalid value: "nobody": must be a fully qualified domain and path`,
		},
		{
			"certificatesigningrequests", `{"spec":{"expirationSeconds":60}}`,
			`spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 600 seconds`,
		},
		{
			"csidrivers", `{"spec":{"tokenRequests":[{"audience":"a"},{"audience":"a"}]}}`,
			`spec.tokenRequests[1].audience: Duplicate value: "a"`,
		},
		{
			"resourcequotas", `{"spec":{"hard":{"pod":"1"}}}`,
			`spec.hard[pod]: Invalid value: "pod": must be a standard resource for quota`,
		},
		{"resourcequotas", `{"spec":{"hard":{"pods":"500m"}}}`, `spec.hard[pods]: Invalid value: "500m": must be an integer`},
		{"resourcequotas", `{"spec":{"scopes":["Best"]}}`, `unsupported scope`},
		{"resourcequotas", `{"spec":{"hard":{"secrets":"1"},"scopes":["BestEffort"]}}`, `unsupported scope applied to resource`},
		{"resourcequotas", `{"spec":{"hard":{"pods":"1"},"scopes":["BestEffort","NotBestEffort"]}}`, `conflicting scopes`},
		{
			"resourcequotas", `{"spec":{"scopeSelector":{"matchExpressions":[{"scopeName":"BestEffort","operator":"In"}]}}}`,
			`spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists'`,
		},
		{
			"storageclasses", `{"allowedTopologies":[{"matchLabelExpressions":[{"key":"a","values":["b","c"]}]},
				{"matchLabelExpressions":[{"key":"a","values":["c","b"]}]}]}`,
			`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`,
		},
		{
			"persistentvolumes", `{"spec":{"local":{"path":"/a"},"nfs":{"server":"s","path":"/b"}}}`,
			`spec.local: Forbidden: may not specify more than 1 volume type`,
		},
		{
			"jobs", `{"spec":{"completionMode":"Indexed","completions":100001,"backoffLimitPerIndex":1}}`,
			`spec.maxFailedIndexes: Required value: must be specified when completions is above 100000`,
		},
		{"csidrivers", `{"spec":{"fsGroupPolicy":"Never"}}`, `spec.fsGroupPolicy: Unsupported value: "Never"`},
		{"csinodes", `{"spec":{"drivers":[{"name":"a"}]}}`, `spec.drivers[0].nodeID: Required value`},
		{
			"volumeattachments", `{"spec":{"source":null}}`,
			`spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName`,
		},
		{"runtimeclasses", `{"handler":"Run C"}`, `handler: Invalid value: "Run C"`},
		{"storageclasses", `{"provisioner":""}`, `provisioner: Required value`},
		{"csistoragecapacities", `{"capacity":"-1"}`, `capacity: Invalid value: "-1": must be greater than or equal to 0`},
		{
			"volumeattributesclasses", `{"parameters":null}`,
			`parameters: Required value: must contain at least one key/value pair`,
		},
		{
			"servicecidrs", `{"spec":{"cidrs":["10.0.0.0/8","10.1.0.0/16"]}}`,
			`spec.cidrs: Invalid value: ["10.0.0.0/8","10.1.0.0/16"]: may specify no more than one IP for each IP family`,
		},
		{"ipaddresses", `{"metadata":{"name":"10.0.0.01"}}`, `metadata.name: Invalid value: "10.0.0.01"`},
		{"ipaddresses", `{"spec":{"parentRef":{"name":null}}}`, `spec.parentRef.name: Required value`},
		{"clustertrustbundles", `{"metadata":{"name":"roots"}}`, `must be named with prefix example.org:signer:`},
		{"clustertrustbundles", `{"spec":{"trustBundle":"none"}}`, `at least one trust anchor must be provided`},
		{"podcertificaterequests", `{"spec":{"maxExpirationSeconds":60}}`, `must be in the range [3600, 7862400]`},
		{"podcertificaterequests", `{"spec":{"stubPKCS10Request":"AAAA"}}`, `must be a valid PKCS#10 CSR`},
		{"flowschemas", `{"spec":{"matchingPrecedence":1}}`, `only the schema named 'exempt' may have matchingPrecedence 1`},
		{"flowschemas", `{"metadata":{"name":"catch-all"}}`, `spec of 'catch-all' must equal the fixed value`},
		{
			"flowschemas", `{"spec":{"rules":[{"subjects":[{"kind":"User","group":{"name":"g"}}]}]}}`,
			`spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'`,
		},
		{
			"prioritylevelconfigurations", `{"metadata":{"name":"exempt"}}`,
			"spec.type: Invalid value: \"Limited\": must be 'Exempt' if and only if `name` is 'exempt'",
		},
		{
			"prioritylevelconfigurations", `{"spec":{"limited":{"limitResponse":{"queuing":{"handSize":65}}}}}`,
			`should not be greater than queues (64)`,
		},
		{
			"storageversionmigrations", `{"spec":{"resource":{"resource":""}}}`,
			`spec.resource.resource: Required value: resource is required to be set`,
		},
		{
			"deviceclasses", `{"spec":{"selectors":[{"cel":{"expression":"device."}}]}}`,
			`spec.selectors[0].cel.expression: Invalid value: "device.": compilation failed: ERROR`,
		},
		{"devicetaintrules", `{"spec":{"taint":{"effect":"Sometimes"}}}`, `spec.taint.effect: Unsupported value: "Sometimes"`},
		{
			"resourceclaims", `{"spec":{"devices":{"constraints":[{"requests":["cpu"],"matchAttribute":"a.b/c"}]}}}`,
			`must be the name of a request in the claim`,
		},
		{
			"resourceclaims", `{"spec":{"devices":{"requests":[{"name":"a"}]}}}`,
			"exactly one of `exactly` or `firstAvailable` is required",
		},
		{"resourceclaimtemplates", `{"spec":{"metadata":{"name":"a"}}}`, `spec.metadata.name: Forbidden: cannot be set`},
		{
			"resourceslices", `{"spec":{"allNodes":true}}`,
			"exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but " +
				"multiple fields are set",
		},
		{
			"resourceslices", `{"spec":{"devices":[{"name":"a","attributes":{"v":{"version":"1"}}}]}}`,
			`must be a string compatible with semver.org spec 2.0.0`,
		},
		{
			"resourceslices",
			`{"spec":{"devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"8","requestPolicy":{"default":"3","validRange":{"min":"2","step":"2"}}}}}]}}`,
			`requestPolicy.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)`,
		},
		{
			"resourceslices",
			`{"spec":{"devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"40Ei","requestPolicy":{"default":"20Ei","validRange":{"min":"0","step":"18446744073709551616"}}}}}]}}`,
			`validRange.step: Invalid value: "18446744073709551616": must not be larger than 9223372036854775807`,
		},
		{
			"customresourcedefinitions", `{"metadata":{"name":"foo.t.example.com"}}`,
			`metadata.name: Invalid value: "foo.t.example.com": must be spec.names.plural+"."+spec.group`,
		},
		{"customresourcedefinitions", `{"spec":{"scope":""}}`, `spec.scope: Required value`},
		{
			"customresourcedefinitions", `{"spec":{"versions":[{"name":"v1","served":true,"storage":true}]}}`,
			`spec.versions[0].schema.openAPIV3Schema: Required value`,
		},
		{
			"customresourcedefinitions", `{"spec":{"conversion":{"strategy":"Webhook"}}}`,
			`spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.plural+tt.patch, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			got, _ := r.Type.Validate(changed(t, r, tt.patch), nil)
			if aggregate := got.ToAggregate(); aggregate == nil || !strings.Contains(aggregate.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", aggregate, tt.want)
			}
		})
	}
}

func TestNewObjectHasAStatus(t *testing.T) {
	for plural, want := range map[string]map[string]any{
		"deployments":  {},
		"replicasets":  {"replicas": int64(0)},
		"services":     {"loadBalancer": map[string]any{}},
		"statefulsets": {"replicas": int64(0), "availableReplicas": int64(0)},
		"pods":         {"phase": "Pending", "qosClass": "Burstable"},
	} {
		r := byPlural(t, plural)
		u := builtintest.Written(t, r, builtintest.Manifest(t, r))
		delete(u.Object, "status")
		if err := r.Type.Default(u); err != nil {
			t.Fatal(err)
		}
		if r.Complete != nil {
			if err := r.Complete(u.Object, nil); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, u.Object["status"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", plural, diff)
		}
	}
}

func TestPodQualityOfServiceFollowsResources(t *testing.T) {
	r := byPlural(t, "pods")
	for resources, want := range map[string]string{
		`{}`:                                    "BestEffort",
		`{"limits":{"cpu":"1","memory":"1Gi"}}`: "Guaranteed",
		`{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m"}}`:      "Guaranteed",
		`{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}`:       "Burstable",
		`{"requests":{"cpu":"500m"}}`:                                           "Burstable",
		`{"limits":{"example.com/gpu":"1"},"requests":{"example.com/gpu":"1"}}`: "BestEffort",
	} {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"initContainers": nil, "containers": []any{
			map[string]any{"name": "a", "image": "a", "resources": json.RawMessage(resources)},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		u := changed(t, r, string(patch))
		if got, _, _ := unstructured.NestedString(u.Object, "status", "qosClass"); got != want {
			t.Errorf("%s: got %s, want %s", resources, got, want)
		}
	}
}

func TestNamesThatUpstreamAcceptsAreAccepted(t *testing.T) {
	for _, plural := range []string{"roles", "rolebindings", "poddisruptionbudgets"} {
		r := byPlural(t, plural)
		if errs, _ := r.Type.Validate(changed(t, r, `{"metadata":{"name":"Any segment: of a path!"}}`), nil); len(errs) > 0 {
			t.Errorf("%s: %v", plural, errs)
		}
	}
}

// TestKeysOfDataAreThoseThatUpstreamAccepts: most keys are recognized without upstream's regular
// expression.
func TestKeysOfDataAreThoseThatUpstreamAccepts(t *testing.T) {
	keys := []string{
		"", ".", "..", "...", "..a", ".a", "a..", "a", "A.b-c_d", "a/b", "a b", "a\n", "ä", strings.Repeat("a", 253),
		strings.Repeat("a", 254),
	}
	for c := range 128 {
		keys = append(keys, string(rune(c)), "a"+string(rune(c)))
	}
	for _, r := range []*kinds.Resource{byPlural(t, "configmaps"), byPlural(t, "secrets")} {
		for _, key := range keys {
			u := builtintest.Written(t, r, builtintest.Manifest(t, r))
			u.Object["data"] = map[string]any{key: ""}
			delete(u.Object, "binaryData")
			errs, _ := r.Type.Validate(u, nil)
			want := validation.IsConfigMapKey(key)
			if len(errs) != len(want) {
				t.Errorf("%s: data of key %q: %v, want %q", r.Plural, key, errs, want)
			}
		}
	}
}
