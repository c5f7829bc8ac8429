//go:build !race

package growth_test

import (
	"fmt"
	"slices"
	"strings"
)

const (
	core        = "/api/v1/namespaces/default/"
	limited     = "/api/v1/namespaces/limited/"
	dryRun      = "?dryRun=All"
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	things      = "/apis/t.example.com/v1/namespaces/default/things"
	yaml        = "application/yaml"
	jsonPatch   = "application/json-patch+json"
	mergePatch  = "application/merge-patch+json"
	strategic   = "application/strategic-merge-patch+json"
	apply       = "application/apply-patch+yaml"
)

// list is n items, separated by commas; # in the item is its number.
func list(n int, item string) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strings.ReplaceAll(item, "#", fmt.Sprint(i)))
	}
	return out.String()
}

// filled is a text with n items for @.
func filled(text, item string) func(n int) string {
	before, after, _ := strings.Cut(text, "@")
	return func(n int) string { return before + list(n, item) + after }
}

// nested is a text with n levels of something for @.
func nested(text, opened, inner, closed string) func(n int) string {
	before, after, _ := strings.Cut(text, "@")
	return func(n int) string {
		return before + strings.Repeat(opened, n) + inner + strings.Repeat(closed, n) + after
	}
}

// creation is one of an object of a built-in kind, such as "v1 Pod", with many items for @.
func creation(name, plural, of, rest, item string) dimension {
	apiVersion, kind, _ := strings.Cut(of, " ")
	path := "/api/v1/"
	if strings.Contains(apiVersion, "/") {
		path = "/apis/" + apiVersion + "/"
	}
	if !cluster[kind] {
		path += "namespaces/default/"
	}
	if !strings.HasPrefix(rest, `"metadata"`) {
		rest = `"metadata":{"name":"x"},` + rest
	}
	return dimension{
		name: "create " + kind + " with " + name, request: "POST " + path + plural + dryRun,
		body: filled(`{"apiVersion":"`+apiVersion+`","kind":"`+kind+`",`+rest+`}`, item),
	}
}

var cluster = map[string]bool{
	"ClusterRole": true, "ClusterRoleBinding": true, "CustomResourceDefinition": true, "Node": true, "StorageClass": true,
	"ValidatingWebhookConfiguration": true,
	"ValidatingAdmissionPolicy":      true, "ValidatingAdmissionPolicyBinding": true, "MutatingAdmissionPolicy": true,
	"MutatingWebhookConfiguration": true, "Namespace": true, "PersistentVolume": true, "ResourceSlice": true,
	"PriorityLevelConfiguration": true, "FlowSchema": true,
	"CertificateSigningRequest": true, "CSINode": true, "DeviceClass": true,
}

// prepare makes what the dimensions need.
func prepare(s *server) {
	const properties = `{"type":"object","properties":{
"list":{"type":"array","items":{"type":"string"}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"objects":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}}},
"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}},
"pairs":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}},
"unique":{"type":"array","uniqueItems":false,"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
"values":{"type":"object","additionalProperties":{"type":"string","pattern":"^[a-z0-9]*$"}},
"free":{"x-kubernetes-preserve-unknown-fields":true},
"defaulted":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"object","default":{},"properties":{"c":{"type":"integer","default":1}}}}}},
"ruled":{"type":"array","maxItems":1000,"items":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= 0"}]},` +
		`"x-kubernetes-validations":[{"rule":"self.all(a, a >= 0)"}]},
"embedded":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
"dates":{"type":"array","items":{"type":"string","format":"date-time"}},
"one":{"type":"array","items":{"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}}
}}`
	s.must("POST "+definitions, definition("things", "Thing", strings.ReplaceAll(properties, "\n", "")))
	s.must("POST "+core+"configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`)
	s.must("POST "+core+"pods",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","finalizers":["example.com/a"]},"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"a"}]}],"volumes":[{"name":"a","emptyDir":{}}]}}`)
	s.must("POST "+things, `{"apiVersion":"t.example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"set":["a"]}}`)
	s.must("POST /api/v1/namespaces", `{"metadata":{"name":"limited","labels":{`+
		`"pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/audit":"baseline"}}}`)
	s.must("POST "+limited+"limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[`+
		`{"type":"Container","max":{"cpu":"2"},"default":{"cpu":"1"}},{"type":"Pod","min":{"cpu":"1m"}}]}}`)
	for i := range 200 {
		s.must("POST "+core+"secrets",
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s-%d","labels":{"a":"b"}}}`, i))
	}
}

// definition is a CustomResourceDefinition with a schema for spec.
func definition(plural, kind, spec string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural +
		`.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"` + plural + `","singular":"` + strings.ToLower(kind) +
		`","kind":"` + kind + `"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + spec +
		`}}}}]}}`
}

// dimensions are all that is measured.
func dimensions() []dimension {
	var all []dimension
	for _, some := range [][]dimension{
		metadatas(), pods(), kinds(), policies(), reviews(), schemas(), customs(), patches(), applies(), reads(),
	} {
		all = append(all, some...)
	}
	return all
}

// metadatas are dimensions of every object.
func metadatas() []dimension {
	var all []dimension
	for name, meta := range map[string][2]string{
		"labels":         {`"labels":{@}`, `"l-#":"v"`},
		"invalid labels": {`"labels":{@}`, `"-#":"%"`},
		"annotations":    {`"annotations":{@}`, `"a#":""`},
		"finalizers":     {`"finalizers":[@]`, `"example.com/f#"`},
		"one finalizer":  {`"finalizers":[@]`, `"example.com/f"`},
		"owners":         {`"ownerReferences":[@]`, `{"apiVersion":"v1","kind":"Pod","name":"o#","uid":"u#"}`},
		"one owner":      {`"ownerReferences":[@]`, `{"apiVersion":"v1","kind":"Pod","name":"o","uid":"u"}`},
		"controllers": {
			`"ownerReferences":[@]`, `{"apiVersion":"v1","kind":"Pod","name":"o#","uid":"u#","controller":true}`,
		},
		"managers": {
			`"managedFields":[@]`,
			`{"manager":"m#","operation":"Update","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k#":{}}}}`,
		},
		"unknown members":  {`@`, `"u#":1`},
		"duplicate fields": {`@`, `"uid":""`},
	} {
		text := `"metadata":{"name":"x",` + meta[0] + `}`
		plain := creation(name, "configmaps", "v1 ConfigMap", text, meta[1])
		if name == "managers" {
			plain.accepted = 4.5 // they are not recorded beyond what takes 0.2 s
		}
		all = append(all, plain)
		custom := plain
		custom.name, custom.request = "create Thing with "+name, "POST "+things+dryRun
		custom.body = filled(`{"apiVersion":"t.example.com/v1","kind":"Thing",`+text+`}`, meta[1])
		all = append(all, custom)
		if !slices.Contains([]string{"labels", "owners", "managers"}, name) {
			continue
		}
		asYAML := plain
		asYAML.name, asYAML.media = asYAML.name+", in YAML", yaml
		all = append(all, asYAML)
		for _, media := range []string{mergePatch, strategic, apply} {
			patch := plain
			patch.name, patch.media, patch.request = media+" of "+name, media, "PATCH "+core+"configmaps/a"+dryRun
			patch.body = filled(`{"metadata":{`+meta[0]+`}}`, meta[1])
			if media == apply {
				patch.request += "&fieldManager=m"
				patch.body = filled(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{`+meta[0]+`}}`, meta[1])
			}
			all = append(all, patch)
		}
	}
	stored := creation("owners, stored", "configmaps", "v1 ConfigMap", `"metadata":{"name":"x","ownerReferences":[@]}`,
		`{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u#"}`)
	stored.request, stored.after = "POST "+core+"configmaps", "DELETE "+core+"configmaps/x"
	return append(
		all, stored,
		creation("data", "configmaps", "v1 ConfigMap", `"data":{@}`, `"k#":""`),
		creation("invalid keys", "configmaps", "v1 ConfigMap", `"data":{@}`, `"k %#":""`),
		creation("numbers", "configmaps", "v1 ConfigMap", `"data":{"a":[@]}`, `1`),
		dimension{name: "create ConfigMap of text", request: "POST " + core + "configmaps" + dryRun, body: func(n int) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"` + strings.Repeat("x", n) + `"}}`
		}},
		dimension{
			name: "create ConfigMap of text, in YAML", media: yaml, request: "POST " + core + "configmaps" + dryRun,
			body: func(n int) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: |\n" + strings.Repeat("    x\n", n)
			},
		},
		dimension{
			name: "aliases in YAML", media: yaml, request: "POST " + core + "configmaps" + dryRun, body: func(n int) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: &a {a: b}\ndata:\n" +
					strings.Repeat("  ? *a\n  : *a\n", n)
			},
		},
		dimension{
			name: "create ConfigMap with a long name", request: "POST " + core + "configmaps" + dryRun, body: func(n int) string {
				return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + strings.Repeat("a.", n) + `"}}`
			},
		},
		dimension{
			name: "depth of JSON", request: "POST " + core + "configmaps" + dryRun,
			body: nested(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":@}`, `{"a":`, "1", "}"),
		},
		dimension{
			name: "depth of YAML", media: yaml, request: "POST " + core + "configmaps" + dryRun,
			body: nested(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":@}`, `[`, "", "]"),
		},
	)
}

// pods are dimensions of pods, and of what has their template.
func pods() []dimension {
	const one = `"spec":{"containers":[{"name":"a","image":"a",@}]}`
	var all []dimension
	for name, spec := range map[string][2]string{
		"containers":       {`"spec":{"containers":[@]}`, `{"name":"c#","image":"a"}`},
		"empty containers": {`"spec":{"containers":[@]}`, `{}`},
		"init containers": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"initContainers":[@]}`, `{"name":"c#","image":"a"}`,
		},
		"one container":        {`"spec":{"containers":[@]}`, `{"name":"c","image":"a"}`},
		"variables":            {strings.Replace(one, "@", `"env":[@]`, 1), `{"name":"v#","value":"x"}`},
		"one variable":         {strings.Replace(one, "@", `"env":[@]`, 1), `{"name":"v","value":"x"}`},
		"variables of maps":    {strings.Replace(one, "@", `"envFrom":[@]`, 1), `{"configMapRef":{"name":"v#"}}`},
		"ports":                {strings.Replace(one, "@", `"ports":[@]`, 1), `{"name":"p#","containerPort":#}`},
		"one port":             {strings.Replace(one, "@", `"ports":[@]`, 1), `{"name":"p","containerPort":80,"hostPort":80}`},
		"mounts":               {strings.Replace(one, "@", `"volumeMounts":[@]`, 1), `{"name":"a","mountPath":"/p#"}`},
		"devices":              {strings.Replace(one, "@", `"volumeDevices":[@]`, 1), `{"name":"a","devicePath":"/p#"}`},
		"arguments":            {strings.Replace(one, "@", `"args":[@]`, 1), `"a"`},
		"resources":            {strings.Replace(one, "@", `"resources":{"limits":{@}}`, 1), `"example.com/r#":"1"`},
		"claims of containers": {strings.Replace(one, "@", `"resources":{"claims":[@]}`, 1), `{"name":"r#"}`},
		"capabilities":         {strings.Replace(one, "@", `"securityContext":{"capabilities":{"add":[@]}}`, 1), `"C#"`},
		"volumes":              {`"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[@]}`, `{"name":"v#","emptyDir":{}}`},
		"one volume":           {`"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[@]}`, `{"name":"v","emptyDir":{}}`},
		"projections": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[{"name":"v","projected":{"sources":[@]}}]}`,
			`{"configMap":{"name":"c","items":[{"key":"a","path":"p#"}]}}`,
		},
		"keys": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"volumes":[{"name":"v","configMap":{"name":"c","items":[@]}}]}`,
			`{"key":"a","path":"p#"}`,
		},
		"tolerations": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"tolerations":[@]}`, `{"key":"k#","operator":"Exists"}`,
		},
		"one toleration": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"tolerations":[@]}`, `{"key":"k","operator":"Exists"}`,
		},
		"hosts": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"hostAliases":[@]}`, `{"ip":"10.0.0.1","hostnames":["h#"]}`,
		},
		"pull secrets": {`"spec":{"containers":[{"name":"a","image":"a"}],"imagePullSecrets":[@]}`, `{"name":"s#"}`},
		"gates": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"schedulingGates":[@]}`, `{"name":"example.com/g#"}`,
		},
		"readiness gates": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"readinessGates":[@]}`, `{"conditionType":"example.com/g#"}`,
		},
		"spreads": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"topologySpreadConstraints":[@]}`,
			`{"maxSkew":1,"topologyKey":"k#","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}`,
		},
		"keys of a spread": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"k",` +
				`"whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":[@]}]}`, `"k#"`,
		},
		"claims": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"resourceClaims":[@]}`, `{"name":"r#","resourceClaimName":"c"}`,
		},
		"node selectors": {`"spec":{"containers":[{"name":"a","image":"a"}],"nodeSelector":{@}}`, `"k#":"v"`},
		"node terms": {
			`"spec":{"containers":[{"name":"a","image":"a"}],` +
				`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[@]}}}}`,
			`{"matchExpressions":[{"key":"k#","operator":"Exists"}]}`,
		},
		"affinity terms": {
			`"spec":{"containers":[{"name":"a","image":"a"}],` +
				`"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[@]}}}`,
			`{"topologyKey":"k#","labelSelector":{"matchLabels":{"a":"b"}}}`,
		},
		"affinity keys": {
			`"spec":{"containers":[{"name":"a","image":"a"}],` +
				`"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k",` +
				`"labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":[@]}]}}}`, `"k#"`,
		},
		"sysctls": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"securityContext":{"sysctls":[@]}}`,
			`{"name":"kernel.s#","value":"1"}`,
		},
		"groups": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"securityContext":{"supplementalGroups":[@]}}`, `#`,
		},
		"searches": {
			`"spec":{"containers":[{"name":"a","image":"a"}],"dnsConfig":{"searches":[@]}}`, `"s#.example.com"`,
		},
	} {
		all = append(all, creation(name, "pods", "v1 Pod", spec[0], spec[1]))
	}
	return append(
		all,
		dimension{name: "pods with mounts and volumes", request: "POST " + core + "pods" + dryRun, body: func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a",` +
				`"image":"a","volumeMounts":[` +
				list(n, `{"name":"v#","mountPath":"/p#"}`) + `]}],"volumes":[` + list(n, `{"name":"v#","emptyDir":{}}`) + `]}}`
		}},
		dimension{name: "pods with claims of others", request: "POST " + core + "pods" + dryRun, body: func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"a",` +
				`"resources":{"claims":[` +
				list(n, `{"name":"missing-#"}`) + `]}}],"resourceClaims":[` + list(n, `{"name":"r#","resourceClaimName":"c"}`) +
				`]}}`
		}},
		dimension{name: "pods with limits and levels", request: "POST " + limited + "pods" + dryRun, body: func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[` + list(n,
				`{"name":"c#","image":"a","securityContext":{"privileged":true},"ports":[{"hostPort":#,"containerPort":#}]}`) +
				`]}}`
		}},
		dimension{name: "pods with ports of the host", request: "POST " + core + "pods" + dryRun, body: func(n int) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[` + list(n,
				`{"name":"c#","image":"a","ports":[{"containerPort":#,"hostPort":#}]}`) + `],"hostNetwork":true}}`
		}},
	)
}

// kinds are dimensions of other built-in kinds.
func kinds() []dimension {
	selector := `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"a","image":"a"}]}}`
	return []dimension{
		creation("ports", "services", "v1 Service", `"spec":{"ports":[@]}`, `{"name":"p#","port":#}`),
		creation("one port", "services", "v1 Service", `"spec":{"ports":[@]}`, `{"name":"p","port":80}`),
		creation("external addresses",
			"services", "v1 Service", `"spec":{"ports":[{"port":80}],"externalIPs":[@]}`, `"10.0.0.1"`),
		creation("ranges", "services", "v1 Service",
			`"spec":{"type":"LoadBalancer","ports":[{"port":80}],"loadBalancerSourceRanges":[@]}`, `"10.0.0.0/8"`),
		creation("selectors", "services", "v1 Service", `"spec":{"ports":[{"port":80}],"selector":{@}}`, `"k#":"v"`),
		creation("addresses", "endpoints", "v1 Endpoints", `"subsets":[{"addresses":[@],"ports":[{"port":80}]}]`,
			`{"ip":"10.0.0.1","hostname":"h#"}`),
		creation("ports", "endpoints", "v1 Endpoints", `"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[@]}]`,
			`{"name":"p#","port":80}`),
		creation("subsets",
			"endpoints", "v1 Endpoints", `"subsets":[@]`, `{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":#}]}`),
		creation("endpoints", "endpointslices", "discovery.k8s.io/v1 EndpointSlice", `"addressType":"IPv4","endpoints":[@]`,
			`{"addresses":["10.0.0.1"]}`),
		creation("ports", "endpointslices", "discovery.k8s.io/v1 EndpointSlice",
			`"addressType":"IPv4","endpoints":[],"ports":[@]`, `{"name":"p#","port":80}`),
		creation("rules", "ingresses", "networking.k8s.io/v1 Ingress", `"spec":{"rules":[@]}`,
			`{"host":"h#.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}`),
		creation("hosts", "ingresses", "networking.k8s.io/v1 Ingress",
			`"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}},"tls":[{"hosts":[@]}]}`, `"h#.example.com"`),
		creation("rules", "networkpolicies", "networking.k8s.io/v1 NetworkPolicy", `"spec":{"podSelector":{},"ingress":[@]}`,
			`{"from":[{"podSelector":{"matchLabels":{"a":"b"}}}]}`),
		creation("exceptions", "networkpolicies", "networking.k8s.io/v1 NetworkPolicy",
			`"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":[@]}}]}]}`, `"10.1.0.0/16"`),
		creation("requirements", "networkpolicies", "networking.k8s.io/v1 NetworkPolicy",
			`"spec":{"podSelector":{"matchExpressions":[@]}}`, `{"key":"k#","operator":"Exists"}`),
		creation("requirements", "poddisruptionbudgets", "policy/v1 PodDisruptionBudget",
			`"spec":{"minAvailable":1,"selector":{"matchExpressions":[@]}}`, `{"key":"k#","operator":"Exists"}`),
		creation("values", "poddisruptionbudgets", "policy/v1 PodDisruptionBudget",
			`"spec":{"minAvailable":1,"selector":{"matchExpressions":[{"key":"k","operator":"In","values":[@]}]}}`, `"v#"`),
		creation("labels to match", "poddisruptionbudgets", "policy/v1 PodDisruptionBudget",
			`"spec":{"minAvailable":1,"selector":{"matchLabels":{@}}}`, `"k#":"v"`),
		creation("requirements", "deployments", "apps/v1 Deployment",
			`"spec":{"selector":{"matchExpressions":[@]},"template":{"metadata":{"labels":{"a":"b"}},`+
				`"spec":{"containers":[{"name":"a","image":"a"}]}}}`, `{"key":"k#","operator":"DoesNotExist"}`),
		creation("claims", "statefulsets", "apps/v1 StatefulSet",
			`"spec":{"serviceName":"s",`+selector+`,"volumeClaimTemplates":[@]}`,
			`{"metadata":{"name":"v#"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`),
		creation("failure rules", "jobs", "batch/v1 Job",
			`"spec":{"podFailurePolicy":{"rules":[@]},"template":{"spec":{"restartPolicy":"Never",`+
				`"containers":[{"name":"a","image":"a"}]}}}`,
			`{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}`),
		creation("exit codes", "jobs", "batch/v1 Job",
			`"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In","values":[@]}}]},`+
				`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}`, `#`),
		creation("metrics", "horizontalpodautoscalers", "autoscaling/v2 HorizontalPodAutoscaler",
			`"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"a","apiVersion":"apps/v1"},"metrics":[@]}`,
			`{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}`),
		creation("secrets", "serviceaccounts", "v1 ServiceAccount", `"secrets":[@]`, `{"name":"s#"}`),
		creation("resources", "resourcequotas", "v1 ResourceQuota", `"spec":{"hard":{@}}`, `"count/r#.example.com":"1"`),
		creation("scopes", "resourcequotas", "v1 ResourceQuota", `"spec":{"scopes":[@]}`, `"BestEffort"`),
		creation("limits", "limitranges", "v1 LimitRange", `"spec":{"limits":[@]}`, `{"type":"Container","max":{"cpu":"1"}}`),
		creation("taints", "nodes", "v1 Node", `"spec":{"taints":[@]}`, `{"key":"k#","effect":"NoSchedule"}`),
		creation("topologies", "storageclasses", "storage.k8s.io/v1 StorageClass",
			`"provisioner":"example.com/p","allowedTopologies":[@]`, `{"matchLabelExpressions":[{"key":"k#","values":["v"]}]}`),
		creation("parameters", "storageclasses", "storage.k8s.io/v1 StorageClass",
			`"provisioner":"example.com/p","parameters":{@}`, `"k#":"v"`),
		creation("drivers",
			"csinodes", "storage.k8s.io/v1 CSINode", `"spec":{"drivers":[@]}`, `{"name":"d#.example.com","nodeID":"n"}`),
		creation("devices", "resourceslices", "resource.k8s.io/v1 ResourceSlice",
			`"spec":{"driver":"d.example.com","nodeName":"n","pool":{"name":"p","generation":1,`+
				`"resourceSliceCount":1},"devices":[@]}`, `{"name":"d#"}`),
		creation("requests", "resourceclaims", "resource.k8s.io/v1 ResourceClaim", `"spec":{"devices":{"requests":[@]}}`,
			`{"name":"r#","exactly":{"deviceClassName":"c"}}`),
		creation("rules", "flowschemas", "flowcontrol.apiserver.k8s.io/v1 FlowSchema",
			`"spec":{"priorityLevelConfiguration":{"name":"p"},"rules":[@]}`,
			`{"subjects":[{"kind":"User","user":{"name":"u#"}}],"nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}`),
		creation("usages", "certificatesigningrequests", "certificates.k8s.io/v1 CertificateSigningRequest",
			`"spec":{"signerName":"example.com/s","request":"","usages":[@]}`, `"client auth"`),
	}
}
