//go:build !race

package growth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// policies are dimensions of roles and of what configures admission.
func policies() []dimension {
	const hook = `"name":"h.example.com","sideEffects":"None","admissionReviewVersions":["v1"],` +
		`"clientConfig":{"url":"https://example.com"}`
	const policy = `"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],` +
		`"resources":["*"]}]},`
	return []dimension{
		creation("rules", "roles", "rbac.authorization.k8s.io/v1 Role", `"rules":[@]`,
			`{"apiGroups":["g#"],"resources":["r"],"verbs":["get"]}`),
		creation("verbs", "roles", "rbac.authorization.k8s.io/v1 Role",
			`"rules":[{"apiGroups":[""],"resources":["r"],"verbs":[@]}]`, `"v#"`),
		creation("names", "roles", "rbac.authorization.k8s.io/v1 Role",
			`"rules":[{"apiGroups":[""],"resources":["r"],"verbs":["get"],"resourceNames":[@]}]`, `"v#"`),
		creation("paths", "clusterroles", "rbac.authorization.k8s.io/v1 ClusterRole",
			`"rules":[{"verbs":["get"],"nonResourceURLs":[@]}]`, `"/v#/*"`),
		creation("selectors", "clusterroles", "rbac.authorization.k8s.io/v1 ClusterRole",
			`"aggregationRule":{"clusterRoleSelectors":[@]}`, `{"matchLabels":{"a":"b#"}}`),
		creation("requirements", "clusterroles", "rbac.authorization.k8s.io/v1 ClusterRole",
			`"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[@]}]}`, `{"key":"k#","operator":"Exists"}`),
		creation("subjects", "rolebindings", "rbac.authorization.k8s.io/v1 RoleBinding",
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[@]`,
			`{"kind":"User","name":"u#","apiGroup":"rbac.authorization.k8s.io"}`),
		creation("webhooks", "validatingwebhookconfigurations", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
			`"webhooks":[@]`,
			`{"name":"h#.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://example.com"}}`),
		creation("rules", "validatingwebhookconfigurations", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
			`"webhooks":[{`+hook+`,"rules":[@]}]`,
			`{"apiGroups":["g#"],"apiVersions":["*"],"operations":["CREATE"],"resources":["*"]}`),
		creation("resources", "validatingwebhookconfigurations", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
			`"webhooks":[{`+hook+`,"rules":[{"apiGroups":["g"],"apiVersions":["*"],"operations":["CREATE"],"resources":[@]}]}]`,
			`"r#"`),
		creation("requirements", "validatingwebhookconfigurations",
			"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
			`"webhooks":[{`+hook+`,"objectSelector":{"matchExpressions":[@]}}]`, `{"key":"k#","operator":"Exists"}`),
		creation("conditions", "validatingwebhookconfigurations",
			"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", `"webhooks":[{`+hook+`,"matchConditions":[@]}]`,
			`{"name":"c#","expression":"true"}`),
		creation("validations", "validatingadmissionpolicies", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
			policy+`"validations":[@]}`, `{"expression":"object.metadata.name != 'a#'"}`),
		creation("variables", "validatingadmissionpolicies", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
			policy+`"validations":[{"expression":"true"}],"variables":[@]}`, `{"name":"v#","expression":"1"}`),
		creation("audit annotations", "validatingadmissionpolicies", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
			policy+`"auditAnnotations":[@]}`, `{"key":"k#","valueExpression":"'a'"}`),
		{
			name:    "create ValidatingAdmissionPolicy with a long expression",
			request: "POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies" + dryRun, body: func(n int) string {
				return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",` +
					`"metadata":{"name":"x"},` + policy + `"validations":[{"expression":"true` + strings.Repeat(" && true",
					n) + `"}]}}`
			},
		},
		{
			name:    "create ValidatingAdmissionPolicy with a deep expression",
			request: "POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies" + dryRun, body: func(n int) string {
				return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",` +
					`"metadata":{"name":"x"},` + policy + `"validations":[{"expression":"` + strings.Repeat("(",
					n) + "true" + strings.Repeat(")", n) + `"}]}}`
			},
		},
		creation("requirements", "validatingadmissionpolicybindings",
			"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
			`"spec":{"policyName":"p","validationActions":["Deny"],`+
				`"matchResources":{"namespaceSelector":{"matchExpressions":[@]}}}`, `{"key":"k#","operator":"Exists"}`),
		creation("mutations", "mutatingadmissionpolicies", "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
			policy+`"reinvocationPolicy":"Never","failurePolicy":"Ignore","mutations":[@]}`,
			`{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}`),
	}
}

// reviews are what every known user may ask.
func reviews() []dimension {
	const authorization, authentication = "/apis/authorization.k8s.io/v1/", "/apis/authentication.k8s.io/v1/"
	self := func(name, selector, item string) dimension {
		return dimension{
			name: "review of " + name, request: "POST " + authorization + "selfsubjectaccessreviews",
			body: filled(
				`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",`+
					`"spec":{"resourceAttributes":{"verb":"list","resource":"pods",`+selector+`}}}`, item),
		}
	}
	other := func(name, kind, path, spec, item string) dimension {
		return dimension{
			name: kind + " of " + name, request: "POST " + path,
			body: filled(`{"apiVersion":"authorization.k8s.io/v1","kind":"`+kind+`","spec":{`+spec+`}}`, item),
		}
	}
	const asked = `"resourceAttributes":{"verb":"list","resource":"pods","namespace":"default"`
	return []dimension{
		self("label requirements", `"labelSelector":{"requirements":[@]}`, `{"key":"k#","operator":"Exists"}`),
		self("label requirements in reverse",
			`"labelSelector":{"requirements":[@]}`, `{"key":"k#","operator":"In","values":["a#"]}`),
		self("invalid label requirements", `"labelSelector":{"requirements":[@]}`, `{"key":"k #","operator":"In"}`),
		self("unknown operators", `"labelSelector":{"requirements":[@]}`, `{"key":"k#","operator":"Near"}`),
		self("values of labels", `"labelSelector":{"requirements":[{"key":"k","operator":"In","values":[@]}]}`, `"v#"`),
		self("raw requirements", `"labelSelector":{"rawSelector":"@"}`, `k#=v`),
		self("raw values", `"labelSelector":{"rawSelector":"k in (@)"}`, `v#`),
		self("field requirements", `"fieldSelector":{"requirements":[@]}`, `{"key":"k#","operator":"In","values":["v"]}`),
		self("raw field requirements", `"fieldSelector":{"rawSelector":"@"}`, `k#=v`),
		other("groups", "SubjectAccessReview", authorization+"subjectaccessreviews", asked+`},"user":"u","groups":[@]`, `"g#"`),
		other("extra",
			"SubjectAccessReview", authorization+"subjectaccessreviews", asked+`},"user":"u","extra":{@}`, `"k#":["v"]`),
		other("values of extra",
			"SubjectAccessReview", authorization+"subjectaccessreviews", asked+`},"user":"u","extra":{"k":[@]}`, `"v#"`),
		other("label requirements", "SubjectAccessReview", authorization+"subjectaccessreviews",
			asked+`,"labelSelector":{"requirements":[@]}},"user":"u"`, `{"key":"k#","operator":"Exists"}`),
		other("label requirements", "LocalSubjectAccessReview", authorization+"namespaces/default/localsubjectaccessreviews",
			asked+`,"labelSelector":{"requirements":[@]}},"user":"u"`, `{"key":"k#","operator":"Exists"}`),
		{
			name: "audiences of a TokenReview", request: "POST " + authentication + "tokenreviews",
			body: filled(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"t","audiences":[@]}}`,
				`"a#"`),
		},
		{
			name: "audiences of a TokenRequest", request: "POST " + core + "serviceaccounts/default/token" + dryRun,
			body: filled(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[@]}}`, `"a#"`),
		},
		{name: "a long token", request: "POST " + authentication + "tokenreviews", body: func(n int) string {
			return `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"` + strings.Repeat("a.",
				n) + `"}}`
		}},
	}
}

// schemas are dimensions of definitions.
func schemas() []dimension {
	schema := func(name, spec, item string) dimension {
		return dimension{
			name: "definition with " + name, request: "POST " + definitions + dryRun,
			body: filled(definition("xs", "X", spec), item),
		}
	}
	names := func(name, replaced, with, item string) dimension {
		text := strings.Replace(definition("xs", "X", `{"type":"object","properties":{"a":{"type":"string"}}}`), replaced, with,
			1)
		return dimension{name: "definition with " + name, request: "POST " + definitions + dryRun, body: filled(text, item)}
	}
	return []dimension{
		schema("properties", `{"type":"object","properties":{@}}`, `"p#":{"type":"string"}`),
		schema("patterns", `{"type":"object","properties":{@}}`, `"p#":{"type":"string","pattern":"^a#$"}`),
		schema("required names", `{"type":"object","required":[@]}`, `"p#"`),
		schema("values of an enum", `{"type":"string","enum":[@]}`, `"p#"`),
		schema("rules", `{"type":"object","properties":{"a":{"type":"string","maxLength":9}},"x-kubernetes-validations":[@]}`,
			`{"rule":"self.a != 'x#'"}`),
		schema("choices", `{"type":"object","properties":{"a":{"type":"string"}},"oneOf":[@]}`, `{"required":["a"]}`),
		schema("defaults", `{"type":"object","properties":{@}}`, `"p#":{"type":"string","default":"x"}`),
		schema("keys of a list",
			`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[@],"items":{"type":"object",`+
				`"required":["k0"],"properties":{"k0":{"type":"string"}}}}`, `"k#"`),
		// With the square of the depth, which is at most 1000: 0.3 s.
		{
			name: "deep definition", accepted: 4.5, request: "POST " + definitions + dryRun,
			body: nested(definition("xs", "X", `@`), `{"type":"object","properties":{"a":`, `{"type":"string"}`, `}}`),
		},
		{
			name: "deep definition of lists", accepted: 4.5, request: "POST " + definitions + dryRun,
			body: nested(definition("xs", "X", `@`), `{"type":"array","items":`, `{"type":"string"}`, `}`),
		},
		names("short names", `"kind":"X"`, `"kind":"X","shortNames":[@]`, `"s#"`),
		names("categories", `"kind":"X"`, `"kind":"X","categories":[@]`, `"s#"`),
		names("columns", `"served":true`, `"served":true,"additionalPrinterColumns":[@]`,
			`{"name":"C#","type":"string","jsonPath":".spec.a"}`),
		names("selectable fields", `"served":true`, `"served":true,"selectableFields":[@]`, `{"jsonPath":".spec.a"}`),
		names("versions", `"versions":[`, `"versions":[@,`,
			`{"name":"v1alpha#","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}`),
		names("review versions", `"scope":`,
			`"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://example.com"},`+
				`"conversionReviewVersions":[@]}},"scope":`, `"v#"`),
	}
}

// customs are dimensions of custom resources.
func customs() []dimension {
	thing := func(name, spec, item string) dimension {
		return dimension{
			name: "custom resource with " + name, request: "POST " + things + dryRun,
			body: filled(`{"apiVersion":"t.example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{`+spec+`}}`, item),
		}
	}
	all := []dimension{
		thing("a list", `"list":[@]`, `"v#"`),
		thing("wrong items", `"list":[@]`, `#`),
		thing("a set", `"set":[@]`, `"v#"`),
		thing("a set of one", `"set":[@]`, `"v"`),
		thing("a set of objects", `"objects":[@]`, `{"a":"#"}`),
		thing("a set of one object", `"objects":[@]`, `{"a":"x"}`),
		thing("a list by key", `"map":[@]`, `{"a":"#","b":1}`),
		thing("a list by one key", `"map":[@]`, `{"a":"x","b":1}`),
		thing("a list by two keys", `"pairs":[@]`, `{"a":"#","b":#}`),
		thing("objects", `"unique":[@]`, `{"a":#}`),
		thing("values", `"values":{@}`, `"k#":"v"`),
		thing("invalid values", `"values":{@}`, `"k#":"%"`),
		thing("free members", `"free":{@}`, `"k#":1`),
		thing("unknown members", `@`, `"k#":1`),
		thing("defaulted items", `"defaulted":[@]`, `{}`),
		thing("items with rules", `"ruled":[@]`, `#`),
		thing("items that break rules", `"ruled":[@]`, `-#`),
		thing("embedded resources",
			`"embedded":[@]`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a#","labels":{"a":"b"}}}`),
		thing("dates", `"dates":[@]`, `"2020-01-01T00:00:00Z"`),
		thing("choices", `"one":[@]`, `{"a":"x"}`),
		{
			name: "deep custom resource", request: "POST " + things + dryRun,
			body: nested(`{"apiVersion":"t.example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"free":@}}`,
				`{"a":`, "1", "}"),
		},
	}
	for _, d := range slices.Clip(all) {
		if !slices.ContainsFunc([]string{"set", "by key", "by two keys", "of objects", "values", "defaulted"},
			func(end string) bool { return strings.HasSuffix(d.name, end) }) {
			continue
		}
		// The same against an object of the same size, which an update and a patch compare.
		update := d
		update.name, update.request = "update of "+d.name, "PUT "+things+"/x"+dryRun
		update.before = func(s *server, n int) {
			s.do("DELETE "+things+"/x", "", "", nil)
			s.do("POST "+things, "", d.body(n), nil)
		}
		update.body = func(n int) string {
			return strings.Replace(d.body(n), `"name":"x"`, `"name":"x","labels":{"changed":"yes"}`, 1)
		}
		all = append(all, update)
	}
	return all
}

// patches are dimensions of patches.
func patches() []dimension {
	patch := func(name, media, path, text, item string) dimension {
		return dimension{name: media + " of " + name, media: media, request: "PATCH " + path + dryRun, body: filled(text, item)}
	}
	const a, pod, thing = core + "configmaps/a", core + "pods/a", things + "/a"
	all := []dimension{
		patch("additions", jsonPatch, a, `[@]`, `{"op":"add","path":"/data/k#","value":"x"}`),
		patch("tests", jsonPatch, a, `[@]`, `{"op":"test","path":"/data/a","value":"b"}`),
		patch("copies", jsonPatch, thing, `[{"op":"add","path":"/spec/free","value":{}},@]`,
			`{"op":"copy","from":"/spec/set","path":"/spec/free/k#"}`),
		patch("moves", jsonPatch, a, `[{"op":"add","path":"/data/k0","value":""},@]`,
			`{"op":"move","from":"/data/k0","path":"/data/k0"}`),
		patch("insertions", jsonPatch, thing, `[@]`, `{"op":"add","path":"/spec/set/0","value":"v#"}`),
		patch("one value replaced", jsonPatch, a, `[@]`, `{"op":"replace","path":"/data/a","value":"x#"}`),
		patch("members removed", mergePatch, a, `{"data":{@}}`, `"k#":null`),
		patch("members", mergePatch, a, `{"data":{@}}`, `"k#":"x"`),
		patch("retained keys", strategic, pod, `{"spec":{"volumes":[{"name":"a","$retainKeys":[@],"emptyDir":{}}]}}`, `"k#"`),
		patch("variables", strategic, pod, `{"spec":{"containers":[{"name":"a","env":[@]}]}}`, `{"name":"v#","value":"x"}`),
		patch("deletions", strategic, pod, `{"spec":{"containers":[{"name":"a","env":[@]}]}}`, `{"name":"v#","$patch":"delete"}`),
		patch("one container", strategic, pod, `{"spec":{"containers":[@]}}`, `{"name":"a","env":[{"name":"v#","value":"x"}]}`),
		patch("finalizers", strategic, pod, `{"metadata":{"finalizers":[@]}}`, `"example.com/f#"`),
		patch("deleted finalizers",
			strategic, pod, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[@]}}`, `"example.com/f#"`),
		patch("an order", strategic, pod, `{"spec":{"containers":[{"name":"a","$setElementOrder/env":[{"name":"a"},@]}]}}`,
			`{"name":"v#"}`),
		patch("an order of strings",
			strategic, pod, `{"metadata":{"$setElementOrder/finalizers":["example.com/a",@]}}`, `"example.com/f#"`),
		{name: "an order three times as long", media: strategic, request: "PATCH " + pod + dryRun, body: func(n int) string {
			return `{"spec":{"containers":[{"name":"a","$setElementOrder/env":[` + list(3*n, `{"name":"v#"}`) + `],"env":[` +
				list(n, `{"name":"v#","value":"x"}`) + `]}]}}`
		}},
		{
			name: "deep merge patch", media: mergePatch, request: "PATCH " + thing + dryRun,
			body: nested(`{"spec":{"free":@}}`, `{"a":`, "1", "}"),
		},
		{name: "deep path of a JSON patch", media: jsonPatch, request: "PATCH " + thing + dryRun, body: func(n int) string {
			return `[{"op":"add","path":"/spec/free","value":1},{"op":"test","path":"` + strings.Repeat("/a", n) + `","value":1}]`
		}},
	}
	// A small patch of a large object.
	large := []struct{ name, media, path, made, patch, member, item string }{
		{
			"a pod with variables", strategic, core + "pods",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"a","env":[@]}]}}`,
			`{"spec":{"containers":[{"name":"a","env":[{"name":"new"}]}]}}`, "", `{"name":"v#"}`,
		},
		{
			"an object with finalizers", strategic, core + "configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","finalizers":[@]}}`,
			`{"metadata":{"finalizers":["example.com/new"]}}`, "", `"example.com/f#"`,
		},
		{
			"an object with owners", strategic, core + "configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","ownerReferences":[@]}}`,
			`{"metadata":{"ownerReferences":[{"uid":"u0","$patch":"delete"}]}}`, "",
			`{"apiVersion":"v1","kind":"Pod","name":"o#","uid":"u#"}`,
		},
		{
			"an object with data", mergePatch, core + "configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{@}}`, `{"data":{"new":"x"}}`, "", `"k#":""`,
		},
		{
			"an object with data", apply, core + "configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{@}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","data":{"new":"x"}}`, "", `"k#":""`,
		},
		{
			"a pod with variables", apply, core + "pods",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"a","env":[@]}]}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}}}`, "", `{"name":"v#"}`,
		},
		{
			"a custom resource with a set", apply, things,
			`{"apiVersion":"t.example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"set":[@]}}`,
			`{"apiVersion":"t.example.com/v1","kind":"Thing","spec":{"set":["new"]}}`, "", `"v#"`,
		},
		{
			"an object with data", jsonPatch, core + "configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{@}}`,
			`[{"op":"add","path":"/data/new","value":"x"}]`, "", `"k#":""`,
		},
	}
	for _, l := range large {
		made := filled(l.made, l.item)
		d := dimension{
			name: l.media + " of " + l.name, media: l.media, request: "PATCH " + l.path + "/x" + dryRun + "&fieldManager=m",
			body: func(int) string { return l.patch },
			before: func(s *server, n int) {
				s.do("PATCH "+l.path+"/x", mergePatch, `{"metadata":{"finalizers":null}}`, nil)
				s.do("DELETE "+l.path+"/x?gracePeriodSeconds=0", "", "", nil)
				s.do("POST "+l.path, "", made(n), nil)
			},
			most: 1 << 15,
		}
		all = append(all, d)
	}
	for i := range all {
		if all[i].media == strategic {
			all[i].accepted = 4.5 // with the square of the lists, up to a bound that is about a second
		}
	}
	return all
}

// applies are dimensions of server-side apply.
func applies() []dimension {
	applied := func(name, path, text, item string) dimension {
		return dimension{
			name: "apply of " + name, media: apply, request: "PATCH " + path + dryRun + "&fieldManager=m&force=true",
			body: filled(text, item),
		}
	}
	thing := `{"apiVersion":"t.example.com/v1","kind":"Thing","spec":{@}}`
	return []dimension{
		applied("data", core+"configmaps/a", `{"apiVersion":"v1","kind":"ConfigMap","data":{@}}`, `"k#":"x"`),
		applied("variables", core+"pods/a", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[@]}]}}`,
			`{"name":"v#","value":"x"}`),
		applied("one variable", core+"pods/a", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[@]}]}}`,
			`{"name":"v","value":"x"}`),
		applied("containers",
			core+"pods/new", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[@]}}`, `{"name":"c#","image":"x"}`),
		applied("ports",
			core+"services/new", `{"apiVersion":"v1","kind":"Service","spec":{"ports":[@]}}`, `{"port":#,"protocol":"TCP"}`),
		applied("a set", things+"/a", strings.Replace(thing, "@", `"set":[@]`, 1), `"v#"`),
		applied("a set of objects", things+"/a", strings.Replace(thing, "@", `"objects":[@]`, 1), `{"a":"#"}`),
		applied("a list by key", things+"/a", strings.Replace(thing, "@", `"map":[@]`, 1), `{"a":"#","b":1}`),
		applied("free members", things+"/a", strings.Replace(thing, "@", `"free":{@}`, 1), `"k#":1`),
		applied("rules", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/new",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","rules":[@]}`,
			`{"apiGroups":[""],"resources":["r#"],"verbs":["get"]}`),
		{
			name: "managers", media: apply, request: "PATCH " + core + "configmaps/managed" + dryRun + "&fieldManager=m",
			most: 1 << 9,
			body: func(int) string { return `{"apiVersion":"v1","kind":"ConfigMap","data":{"new":"x"}}` },
			before: func(s *server, n int) {
				s.do("DELETE "+core+"configmaps/managed", "", "", nil)
				for i := range n {
					s.do(fmt.Sprintf("PATCH %sconfigmaps/managed?fieldManager=m%d", core, i), apply,
						fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","data":{"k%d":"x"}}`, i), nil)
				}
			},
		},
	}
}

// reads are dimensions of requests without a body, of headers and of queries.
func reads() []dimension {
	query := func(name, request, prefix, item string) dimension {
		return dimension{
			name: name, request: request,
			query: func(n int) string { return prefix + strings.ReplaceAll(list(n, item), "\"", "") },
		}
	}
	header := func(name, request string, key func(i int) (string, string)) dimension {
		return dimension{name: name, request: request, header: func(n int) http.Header {
			h := http.Header{}
			for i := range n {
				k, v := key(i)
				h.Add(k, v)
			}
			return h
		}}
	}
	joined := func(name, request, key, item string) dimension {
		return dimension{
			name: name, request: request, header: func(n int) http.Header { return http.Header{key: {list(n, item)}} },
		}
	}
	options, _ := json.Marshal(map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": []string{"All"}})
	return []dimension{
		query("label requirements of a list", "GET "+core+"secrets", "?labelSelector=", "!k#"),
		query("values of a label of a list", "GET "+core+"secrets", "?labelSelector=a+notin+(x,", "v#"),
		query("field requirements of a list", "GET "+core+"secrets", "?fieldSelector=", "metadata.name!=k#"),
		query("unknown field requirements", "GET "+core+"secrets", "?fieldSelector=", "k#!=k"),
		{
			name: "parameters", request: "GET " + core + "configmaps/a",
			query: func(n int) string { return "?" + strings.ReplaceAll(list(n, "p#=x"), ",", "&") },
		},
		{
			name: "one parameter", request: "GET " + core + "configmaps/a",
			query: func(n int) string { return "?" + strings.ReplaceAll(list(n, "pretty=x"), ",", "&") },
		},
		{
			name: "dry runs", request: "DELETE " + core + "configmaps/a",
			query: func(n int) string { return "?" + strings.ReplaceAll(list(n, "dryRun=All"), ",", "&") },
			body:  func(int) string { return string(options) },
		},
		{
			name: "a long continue token", request: "GET " + core + "secrets",
			query: func(n int) string { return "?limit=1&continue=" + strings.Repeat("eyJ2", n) },
		},
		{name: "a long path", request: "GET /apis", query: func(n int) string { return strings.Repeat("/a", n) }},
		{
			name: "a long name", request: "GET " + core + "configmaps/",
			query: func(n int) string { return strings.Repeat("a.", n) },
		},
		header("groups to impersonate", "GET "+core+"configmaps/a", func(i int) (string, string) {
			return "Impersonate-Group", fmt.Sprintf("g%d", i)
		}),
		header("extra to impersonate", "GET "+core+"configmaps/a", func(i int) (string, string) {
			return fmt.Sprintf("Impersonate-Extra-K%d", i), "v"
		}),
		header("headers", "GET "+core+"configmaps/a", func(i int) (string, string) { return fmt.Sprintf("X-H%d", i), "v" }),
		joined("media types", "GET "+core+"configmaps/a", "Accept", "application/json;as=Table;v=v#;g=meta.k8s.io"),
		joined("codings", "GET "+core+"configmaps/a", "Accept-Encoding", "c#;q=0.5"),
		joined("a long user agent", "PUT "+core+"configmaps/a"+dryRun, "User-Agent", "x#"),
		joined("a long Authorization", "GET "+core+"configmaps/a", "X-Remote-User", "x#"),
		joined("versions of If-None-Match", "GET /openapi/v2", "If-None-Match", `"x#"`),
	}
}
