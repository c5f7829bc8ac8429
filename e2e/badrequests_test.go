package e2e_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

func badQueries() []badInput {
	get := func(query string) string { return request(http.MethodGet, allConfigMaps+"?"+query, "") }
	token := func(json string) string {
		return get("continue=" + base64.RawURLEncoding.EncodeToString([]byte(json)))
	}
	const invalidToken = "invalid continue token: continue key is not valid: "
	all := []badInput{
		{name: "limit", request: get("limit=x"), message: `parsing "x": invalid syntax`},
		{name: "huge limit", request: get("limit=99999999999999999999"), message: "value out of range"},
		{
			name: "resourceVersion too long", request: get("resourceVersion=99999999999999999999999"),
			message: "value out of range",
		},
		{name: "resourceVersion with sign", request: get("resourceVersion=%2B1"), message: "invalid syntax"},
		{name: "label", request: get("labelSelector=a%3D%3D%3Db"), message: "unable to parse"},
		{name: "label with NUL", request: get("labelSelector=%00"), message: "unable to parse"},
		{name: "label with a broken rune", request: get("labelSelector=%ff%fe%3Da"), message: "unable to parse"},
		{name: "deep label", request: get("labelSelector=" + strings.Repeat("(", 50_000)), message: "found '('"},
		{name: "long label", request: get("labelSelector=" + strings.Repeat("a", 50_000)), message: "unable to parse"},
		{name: "field", request: get("fieldSelector=metadata.name"), message: "invalid selector"},
		{name: "unknown field", request: get("fieldSelector=data.x%3D1"), message: `"data.x" is not a known field selector`},
		{name: "escape in field", request: get(`fieldSelector=metadata.name%3D%5Cz`), message: "invalid field selector"},
		{name: "token that is no base64", request: get("continue=!!!"), message: invalidToken + "illegal base64"},
		{name: "token that is no JSON", request: get("continue=YWJj"), message: invalidToken},
		{
			name: "token of another version", request: token(`{"v":"v9","rv":1,"start":"a\u0000"}`),
			message: invalidToken + "server does not recognize this encoded version v9",
		},
		{
			name: "token without a revision", request: token(`{"v":"meta.k8s.io/v1","start":"a\u0000"}`),
			message: invalidToken + "incorrect encoded start resourceVersion",
		},
		{
			name: "token without a key", request: token(`{"v":"meta.k8s.io/v1","rv":7}`),
			message: invalidToken + "encoded start key empty",
		},
		{
			name: "token that climbs", request: token(`{"v":"meta.k8s.io/v1","rv":7,"start":"../secrets/a\u0000"}`),
			message: invalidToken,
		},
		{
			name: "token with a resource version", request: get("continue={token}&resourceVersion={d}"),
			message: "specifying resource version is not allowed when using continue",
		},
		{
			name: "includeObject", request: request(http.MethodGet, configMaps+"?includeObject=Most", "", acceptTable),
			message: "unrecognized includeObject value",
		},
	}
	for i := range all {
		all[i].code, all[i].reason = http.StatusBadRequest, "BadRequest"
	}
	return all
}

func badPaths() []badInput {
	get := func(path string) string { return request(http.MethodGet, path, "") }
	bad := func(name, path string) badInput {
		return badInput{
			name: name, request: get(path), code: http.StatusBadRequest, reason: "BadRequest", message: "is not allowed",
		}
	}
	return []badInput{
		bad("dots", "/api/v1/namespaces/../configmaps"),
		bad("one dot", "/api/v1/./configmaps"),
		bad("escaped dots", "/api/v1/namespaces/%2e%2e/configmaps"),
		bad("half escaped dots", "/api/v1/namespaces/.%2E/configmaps"),
		bad("escaped slash", configMaps+"/a%2Fb"),
		bad("escaped NUL", configMaps+"/a%00"),
		bad("dots in the name", configMaps+"/.."),
		{
			name: "long name", request: get(configMaps + "/" + strings.Repeat("a", 100_000)), code: http.StatusNotFound,
			reason: "NotFound", message: "not found",
		},
		{
			name: "broken rune", request: get(configMaps + "/%ff%fe"), code: http.StatusNotFound, reason: "NotFound",
			message: "not found",
		},
		{
			name: "blank name", request: get(configMaps + "/%20"), code: http.StatusNotFound, reason: "NotFound",
			message: "not found",
		},
		{
			name: "missing namespace",
			request: request(http.MethodPost, "/api/v1/namespaces/nobody/configmaps", configMapBody("a", "1"),
				"Content-Type: application/json"), code: http.StatusNotFound, reason: "NotFound",
			message: `namespaces "nobody" not found`,
		},
	}
}

func badMethods() []badInput {
	var all []badInput
	for _, in := range [][2]string{
		{"TRACE", configMaps},
		{"OPTIONS", configMaps},
		{"FOO", configMaps + "/a"},
		{"PUT", configMaps},
		{"PATCH", configMaps},
		{"POST", configMaps + "/a"},
		{"POST", allConfigMaps},
		{"DELETE", allConfigMaps},
		{"DELETE", "/api/v1/namespaces/default/pods/a/status"},
		{"DELETE", "/version"},
		{"POST", "/api"},
		{"PUT", "/livez"},
		{"GET", "/gapless/v1/compact"},
		{"DELETE", "/api/v1/namespaces"},
		{"POST", "/api/v1/watch/configmaps"},
	} {
		all = append(all, badInput{
			name: in[0] + " " + in[1], request: request(in[0], in[1], "{}", "Content-Type: application/json"),
			code: http.StatusMethodNotAllowed, reason: "MethodNotAllowed", message: "is not supported on resources of kind",
		})
	}
	return all
}

func badHeaders() []badInput {
	get := func(accept string) string { return request(http.MethodGet, configMaps, "", "Accept: "+accept) }
	var all []badInput
	for _, accept := range []string{
		"text/html", "application/json;as=Chair;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v9;g=meta.k8s.io",
		"image/*;q=0.5", "application/cbor",
	} {
		all = append(all, badInput{
			name: "Accept " + accept, request: get(accept), code: http.StatusNotAcceptable, reason: "NotAcceptable",
			message: "only the following media types are accepted",
		})
	}
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "application/json;;;=", "nonsense", "application/merge-patch+json",
	} {
		all = append(all, badInput{
			name:    "Content-Type " + kind,
			request: request(http.MethodPost, configMaps, configMapBody("n", "1"), "Content-Type: "+kind),
			code:    http.StatusUnsupportedMediaType, reason: "UnsupportedMediaType",
			message: "the body of the request was in an unknown format - accepted media types include: application/json",
		})
	}
	return all
}

func badBodies() []badInput {
	const mib3 = 3 << 20
	bad := func(name, body, message string, headers ...string) badInput {
		return badInput{
			name: name, request: post(body, headers...), code: http.StatusBadRequest, reason: "BadRequest", message: message,
		}
	}
	large := func(name, request string) badInput {
		return badInput{
			name: name, request: request, code: http.StatusRequestEntityTooLarge, reason: "RequestEntityTooLarge",
			message: "limit is 3145728",
		}
	}
	invalid := func(name, body, message string) badInput {
		return badInput{
			name: name, request: post(body), code: http.StatusUnprocessableEntity, reason: "Invalid", message: message,
		}
	}
	inKind := func(rest string) string { return `{"apiVersion":"v1","kind":"ConfigMap"` + rest + `}` }
	chunk := strings.Repeat(" ", 1<<20)
	chunks := strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk), 4) + "0\r\n\r\n"
	protobuf := func(name, body string) badInput {
		return badInput{
			name: name, request: request(http.MethodPost, configMaps, body, "Content-Type: application/vnd.kubernetes.protobuf"),
			code: http.StatusBadRequest, reason: "BadRequest",
		}
	}
	yaml := func(name, body string) badInput {
		return badInput{
			name: name, request: request(http.MethodPost, configMaps, body, "Content-Type: application/yaml"),
			code: http.StatusBadRequest, reason: "BadRequest",
		}
	}
	return []badInput{
		bad("empty", "", ""),
		bad("truncated", configMapBody("t", "1")[:40], "the object provided is unrecognized"),
		bad("no JSON", "hello", "the object provided is unrecognized"),
		invalid("null", "null", "metadata.name: Required value"),
		bad("array", "[]", "the object provided is unrecognized"),
		bad("text", `"a"`, "the object provided is unrecognized"),
		bad("two objects", configMapBody("t", "1")+configMapBody("u", "1"), ""),
		bad("other kind", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"}}`, "cannot be handled as a ConfigMap"),
		bad("kind of another type", `{"apiVersion":"v1","kind":7}`, ""),
		bad("other version", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"t"}}`,
			"does not match the expected API version (v1)"),
		bad("deep", inKind(`,"metadata":{"name":"t"},"data":`+strings.Repeat("[", 90_000)), ""),
		bad("deep and whole",
			inKind(`,"metadata":{"name":"t"},"x":`+strings.Repeat(`{"a":`, 50_000)+"1"+strings.Repeat("}", 50_000)), ""),
		bad("number for text", inKind(`,"metadata":{"name":7}`), ""),
		bad("text for map", inKind(`,"metadata":"t"`), ""),
		bad("huge number", inKind(`,"metadata":{"name":"t","generation":1e999}`), ""),
		bad("integer out of range", inKind(`,"metadata":{"name":"t","deletionGracePeriodSeconds":99999999999999999999}`), ""),
		bad("bad time", inKind(`,"metadata":{"name":"t","creationTimestamp":"yesterday"}`), ""),
		bad("bad base64", inKind(`,"metadata":{"name":"t"},"binaryData":{"a":"%%%"}`), ""),
		bad("resource version", inKind(`,"metadata":{"name":"t","resourceVersion":"7"}`),
			"resourceVersion should not be set on objects to be created"),
		bad("other namespace", inKind(`,"metadata":{"name":"t","namespace":"default-b"}`),
			"the namespace of the provided object does not match the namespace sent on the request"),
		invalid("no name", inKind(`,"metadata":{}`), "metadata.name: Required value: name or generateName is required"),
		invalid("bad name", inKind(`,"metadata":{"name":"A_b"}`), `metadata.name: Invalid value: "A_b"`),
		invalid("name that climbs", inKind(`,"metadata":{"name":"../x"}`), `metadata.name: Invalid value: "../x"`),
		invalid("name with NUL", inKind(`,"metadata":{"name":"a\u0000"}`), `metadata.name: Invalid value`),
		invalid("long name", inKind(`,"metadata":{"name":"`+strings.Repeat("a", 300)+`"}`), "must be no more than 253"),
		invalid("bad label", inKind(`,"metadata":{"name":"t","labels":{"-":"x"}}`), "metadata.labels"),
		invalid("bad data key", inKind(`,"metadata":{"name":"t"},"data":{"a/b":"x"}`), "data"),
		{
			name: "strict duplicate",
			request: strings.Replace(post(inKind(`,"metadata":{"name":"t"},"data":{"a":"1","a":"2"}`)), configMaps,
				configMaps+"?fieldValidation=Strict", 1), code: http.StatusBadRequest, reason: "BadRequest",
			message: `duplicate field "data.a"`,
		},
		{
			name: "strict unknown",
			request: strings.Replace(post(inKind(`,"metadata":{"name":"t"},"zz":1`)), configMaps,
				configMaps+"?fieldValidation=Strict", 1), code: http.StatusBadRequest, reason: "BadRequest",
			message: `unknown field "zz"`,
		},
		{
			name: "dryRun", request: strings.Replace(post(configMapBody("t", "1")), configMaps, configMaps+"?dryRun=Some", 1),
			code: http.StatusUnprocessableEntity, reason: "Invalid", message: "dryRun",
		},
		{
			name:    "fieldValidation",
			request: strings.Replace(post(configMapBody("t", "1")), configMaps, configMaps+"?fieldValidation=Some", 1),
			code:    http.StatusUnprocessableEntity, reason: "Invalid", message: "fieldValidation",
		},
		{
			name: "exists", request: post(configMapBody("a", "1")), code: http.StatusConflict, reason: "AlreadyExists",
			message: `configmaps "a" already exists`,
		},
		large("over the limit", post(configMapBody("t", strings.Repeat("x", mib3)))),
		large("one byte over the limit", post(strings.Repeat(" ", mib3+1))),
		large("chunks over the limit",
			request(http.MethodPost, configMaps, "", "Content-Type: application/json", "Transfer-Encoding: chunked")+chunks),
		bad("at the limit", strings.Repeat(" ", mib3), ""),
		{
			name: "broken chunk",
			request: request(http.MethodPost, configMaps, "", "Content-Type: application/json", "Transfer-Encoding: chunked") +
				"zz\r\n\r\n", code: http.StatusBadRequest, reason: "BadRequest", message: "read the body",
		},
		protobuf("protobuf that is none", "hello"),
		{
			name:    "protobuf envelope of nothing",
			request: request(http.MethodPost, configMaps, "k8s\x00", "Content-Type: application/vnd.kubernetes.protobuf"),
			code:    http.StatusUnprocessableEntity, reason: "Invalid", message: "metadata.name: Required value",
		},
		protobuf("protobuf that is cut off", "k8s\x00\x0a\xff\xff\xff\xff\x0f"),
		protobuf("protobuf of another kind", "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x00"),
		yaml("yaml that is none", "a: b: c"),
		yaml("yaml with tabs", "a:\n\t- b"),
		yaml("yaml that grows", "a: &a [x,x,x,x,x,x,x,x,x]\n"+yamlBomb()),
		yaml("yaml that holds itself", "a: &a\n  b: *a"),
	}
}

// yamlBomb refers to each line nine times in the next.
func yamlBomb() string {
	var b strings.Builder
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	return b.String()
}

func badDeletes() []badInput {
	del := func(body string, headers ...string) string {
		return request(http.MethodDelete, configMaps+"/a", body,
			append([]string{"Content-Type: application/json"}, headers...)...)
	}
	query := func(q string) string { return request(http.MethodDelete, configMaps+"/a?"+q, "") }
	bad := func(name, request, message string) badInput {
		return badInput{name: name, request: request, code: http.StatusBadRequest, reason: "BadRequest", message: message}
	}
	conflict := func(name, request, message string) badInput {
		return badInput{name: name, request: request, code: http.StatusConflict, reason: "Conflict", message: message}
	}
	return []badInput{
		bad("truncated", del(`{"kind":"Dele`), "decode DeleteOptions"),
		bad("array", del(`[]`), "decode DeleteOptions"),
		bad("other kind", del(`{"kind":"Pod"}`), "must be DeleteOptions, not Pod"),
		bad("grace", query("gracePeriodSeconds=soon"), "gracePeriodSeconds"),
		bad("protobuf",
			request(http.MethodDelete, configMaps+"/a", "k8s\x00\xff", "Content-Type: application/vnd.kubernetes.protobuf"), ""),
		bad("selector of a collection", request(http.MethodDelete, configMaps+"?labelSelector=!!", ""), "unable to parse"),
		{
			name: "policy", request: query("propagationPolicy=Foo"), code: http.StatusUnprocessableEntity, reason: "Invalid",
			message: `propagationPolicy: Unsupported value: "Foo"`,
		},
		{
			name: "media type", request: request(http.MethodDelete, configMaps+"/a", "a", "Content-Type: text/plain"),
			code: http.StatusUnsupportedMediaType, reason: "UnsupportedMediaType",
		},
		{
			name: "nothing there", request: request(http.MethodDelete, configMaps+"/no", ""), code: http.StatusNotFound,
			reason: "NotFound", message: `configmaps "no" not found`,
		},
		conflict("resource version", del(`{"preconditions":{"resourceVersion":"7"}}`),
			"the ResourceVersion in the precondition (7) does not match the ResourceVersion in record ({a})"),
		conflict("uid",
			del(`{"preconditions":{"uid":"zz"}}`), "the UID in the precondition (zz) does not match the UID in record"),
		{
			name: "namespace that stays", request: request(http.MethodDelete, "/api/v1/namespaces/default", ""),
			code: http.StatusForbidden, reason: "Forbidden", message: "this namespace may not be deleted",
		},
	}
}

func badPatches() []badInput {
	const (
		merge     = "application/merge-patch+json"
		steps     = "application/json-patch+json"
		strategic = "application/strategic-merge-patch+json"
	)
	patch := func(media, body string) string {
		return request(http.MethodPatch, configMaps+"/a", body, "Content-Type: "+media)
	}
	bad := func(name, request string) badInput {
		return badInput{name: name, request: request, code: http.StatusBadRequest, reason: "BadRequest"}
	}
	unfit := func(name, request, message string) badInput {
		return badInput{name: name, request: request, code: http.StatusUnprocessableEntity, reason: "Invalid", message: message}
	}
	const rejected = "the server rejected our request due to an error in our request"
	var all []badInput
	for media, nothing := range map[string]string{merge: `{}`, steps: `[]`, strategic: `{}`} {
		for name, body := range map[string]string{
			"truncated": `{"a":`, "no JSON": "hello", "empty": "", "text": `"a"`, "deep": strings.Repeat(`[`, 100_000),
		} {
			all = append(all, bad(media+" "+name, patch(media, body)))
		}
		all = append(all,
			badInput{
				name: media + " too large", request: patch(media, strings.Repeat(" ", 3<<20+1)),
				code: http.StatusRequestEntityTooLarge, reason: "RequestEntityTooLarge",
			},
			badInput{
				name:    media + " of nothing",
				request: strings.Replace(patch(media, nothing), configMaps+"/a", configMaps+"/no", 1), code: http.StatusNotFound,
				reason: "NotFound",
			},
		)
	}
	return append(all,
		bad("merge null", patch(merge, `null`)),
		bad("strategic null", patch(strategic, `null`)),
		bad("merge array", patch(merge, `[]`)),
		unfit("merge that makes no text", patch(merge, `{"data":{"a":7}}`), "cannot unmarshal number"),
		bad("merge that takes the name", patch(merge, `{"metadata":{"name":null}}`)),
		bad("merge that gives another name", patch(merge, `{"metadata":{"name":"b"}}`)),
		bad("merge that gives another namespace", patch(merge, `{"metadata":{"namespace":"default-b"}}`)),
		unfit("strategic directive of nothing", patch(strategic, `{"$patch":"dance"}`), "unknown patch type: dance"),
		unfit("strategic with text for a map", patch(strategic, `{"metadata":"x"}`), "cannot unmarshal string"),
		unfit("merge with a bad label", patch(merge, `{"metadata":{"labels":{"-":"x"}}}`), "metadata.labels"),
		bad("steps that are no array", patch(steps, `{"op":"add"}`)),
		unfit("step that is none", patch(steps, `[{"op":"dance","path":"/data"}]`), ""),
		unfit("step without a path", patch(steps, `[{"op":"remove","path":"/data/no"}]`), rejected),
		unfit("test that fails", patch(steps, `[{"op":"test","path":"/data/x","value":"9"}]`), rejected),
		unfit("index that is negative",
			patch(steps,
				`[{"op":"add","path":"/metadata/finalizers","value":["a.b/c"]},{"op":"remove",`+
					`"path":"/metadata/finalizers/-9"}]`), rejected),
		badInput{
			name: "too many steps",
			request: patch(steps,
				"["+strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10_001), ",")+"]"),
			code: http.StatusRequestEntityTooLarge, reason: "RequestEntityTooLarge", message: "10000",
		},
		badInput{
			name: "steps that grow", request: patch(steps, growing()), code: http.StatusRequestEntityTooLarge,
			reason: "RequestEntityTooLarge",
		},
		badInput{
			name: "stale", request: patch(merge, `{"metadata":{"resourceVersion":"7"},"data":{"y":"1"}}`),
			code: http.StatusConflict, reason: "Conflict", message: "the object has been modified",
		},
		badInput{
			name: "other type", request: patch("application/yaml", `a: b`), code: http.StatusUnsupportedMediaType,
			reason: "UnsupportedMediaType", message: steps,
		},
		badInput{
			name: "no type", request: request(http.MethodPatch, configMaps+"/a", `{}`), code: http.StatusUnsupportedMediaType,
			reason: "UnsupportedMediaType",
		},
	)
}

// growing is a JSON patch that copies the object's data into itself again and
// again.
func growing() string {
	steps := []string{`{"op":"add","path":"/data/a","value":"` + strings.Repeat("x", 1000) + `"}`}
	for i := range 24 {
		steps = append(steps, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/k%d"}`, i))
	}
	return "[" + strings.Join(steps, ",") + "]"
}
