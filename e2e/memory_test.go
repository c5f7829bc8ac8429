//go:build !race

// The race detector takes memory of its own, and nothing here runs at once.

package e2e_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// requestBound is the most memory that one request may take: docs/limits.md.
const requestBound = 384 << 20

// heaviest runs f and returns the most memory that a collection found in use while
// it ran, beyond what was in use before.
func heaviest(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // many collections, so that they meet the worst moment
	goruntime.GC()
	inUse := func() uint64 {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before, most := inUse(), uint64(0)
	ended, joined := make(chan struct{}), make(chan struct{})
	go func() { // ends with ended
		defer close(joined)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, inUse())
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(ended)
	<-joined
	return most - min(most, before)
}

// heavyRequest is a request whose size multiplies on the server.
type heavyRequest struct {
	name, method, path, media, body string
	code                            int
}

// times is n items of a list.
func times(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }

// members is n members of an object.
func members(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%x":%s,`, i, value)
	}
	return b.String() + `"z":` + value
}

const memoryPods = "/api/v1/namespaces/default/pods"

// heavyRequests returns one request for each way to multiply its size.
func heavyRequests(t *testing.T) []heavyRequest {
	const parts, values = 99_000, 490_000
	custom := func(kind, rest string) string {
		return `{"apiVersion":"t.example.com/v1","kind":"` + kind + `","metadata":{"name":"x"},` + rest + `}`
	}
	core := func(kind, rest string) string {
		return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"x"},` + rest + `}`
	}
	meta := func(rest string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x",` + rest + `}}`
	}
	const js, yaml, steps, merge, strategic = "application/json", "application/yaml", "application/json-patch+json",
		"application/merge-patch+json", "application/strategic-merge-patch+json"
	post := func(name string, code int, path, body string) heavyRequest {
		return heavyRequest{name: name, method: "POST", path: path, media: js, body: body, code: code}
	}
	patch := func(name string, code int, media, body string) heavyRequest {
		return heavyRequest{name: name, method: "PATCH", path: memoryObjects + "frees/a", media: media, body: body, code: code}
	}
	apply := func(name string, code int, path, body string) heavyRequest {
		return heavyRequest{
			name: name, method: "PATCH", path: path + "?fieldManager=m", media: "application/apply-patch+yaml", body: body,
			code: code,
		}
	}
	variables := make([]string, 10)
	for i := range variables {
		var env []string
		for j := range 500 {
			env = append(env, fmt.Sprintf(`{"name":"e%d","value":"x"}`, j))
		}
		variables[i] = fmt.Sprintf(`{"name":"c%d","image":"i","env":[%s]}`, i, strings.Join(env, ","))
	}
	yamlHead := "apiVersion: t.example.com/v1\nkind: Free\nmetadata: {name: x}\n"
	return []heavyRequest{
		post("defaults of 50 kB", 413, memoryObjects+"fats", custom("Fat", `"l":[`+times(parts, "{}")+`]`)),
		post("defaults that have parts", 413, memoryObjects+"fats", custom("Fat", `"m":[`+times(parts, "{}")+`]`)),
		post("objects", 201, memoryObjects+"frees", custom("Free", `"l":[`+times(parts, "{}")+`]`)),
		post("numbers", 201, memoryObjects+"frees", custom("Free", `"l":[`+times(values, "1")+`]`)),
		post("names", 201, memoryObjects+"frees", custom("Free", `"l":{`+members(250_000, "1")+`}`)),
		post("too many parts", 413, memoryObjects+"frees", custom("Free", `"l":[`+times(1_000_000, "{}")+`]`)),
		post("too many values", 413, memoryObjects+"frees", custom("Free", `"l":[`+times(1_500_000, "1")+`]`)),
		post("unknown fields", 422, memoryObjects+"typeds", custom("Typed", `"l":[`+times(parts, `{"z":1}`)+`]`)),
		post("errors of a schema", 422, memoryObjects+"typeds", custom("Typed", `"s":[`+times(values, "1")+`]`)),
		post("errors of rules", 422, memoryObjects+"ruleds", custom("Ruled", `"l":[`+times(30_000, "{}")+`]`)),
		post("errors of metadata", 422, configMaps, meta(`"finalizers":[`+times(values, `""`)+`]`)),
		post("errors of labels", 422, configMaps, meta(`"labels":{`+members(240_000, `"-"`)+`}`)),
		post("errors of annotations",
			422, configMaps, meta(`"annotations":{`+strings.ReplaceAll(members(200_000, `"-"`), `,"`, `,"-`)+`}`)),
		post("managed fields that nobody reads",
			201, configMaps, meta(`"managedFields":[`+times(parts, `{"operation":"x"}`)+`]`)),
		post("owners", 422, configMaps, meta(`"ownerReferences":[`+times(parts, `{}`)+`]`)),
		post("containers", 422, memoryPods, core("Pod", `"spec":{"containers":[`+times(parts, "{}")+`]}`)),
		post("webhooks", 422, memoryWebhooks, `{"metadata":{"name":"x"},"webhooks":[`+times(parts, "{}")+`]}`),
		post("rules of a webhook",
			422, memoryWebhooks, `{"metadata":{"name":"x"},"webhooks":[{"rules":[`+times(parts, "{}")+`]}]}`),
		post("versions", 422, memoryDefinitions,
			strings.Replace(definitionOf("Many", "{}"), `"versions":[`, `"versions":[`+times(parts-100, "{}")+`,`, 1)),
		{
			name: "containers in protobuf", method: "POST", path: memoryPods, media: "application/vnd.kubernetes.protobuf",
			body: protobufPod(t, 99_000), code: 413,
		},
		{
			name: "too many containers in protobuf", method: "POST", path: memoryPods,
			media: "application/vnd.kubernetes.protobuf", body: protobufPod(t, 1_400_000), code: 400,
		},
		{
			name: "aliases of a text", method: "POST", path: memoryObjects + "frees", media: yaml,
			body: yamlHead + "a: &a " + strings.Repeat("x", 50_000) + "\nl: [" + times(100_000, "*a") + "]\n", code: 413,
		},
		{
			name: "aliases of a text in options", method: "DELETE", path: memoryPods + "/x", media: yaml,
			body: "a: &a " + strings.Repeat("x", 50_000) + "\nl: [" + times(100_000, "*a") + "]\n", code: 413,
		},
		{
			name: "objects in YAML", method: "POST", path: memoryObjects + "frees", media: yaml,
			body: yamlHead + "l: [" + times(1_000_000, "{}") + "]\n", code: 413,
		},
		patch("copies of the object", 413, steps,
			`[{"op":"add","path":"/t","value":"`+strings.Repeat("x",
				1_000_000)+`"},`+times(9_000, `{"op":"copy","from":"/t","path":"/l/-"}`)+`]`),
		patch("copies that double", 413, steps, `[`+times(60, `{"op":"copy","from":"/l","path":"/l/-"}`)+`]`),
		patch("additions", 413, steps, `[`+times(9_000, `{"op":"add","path":"/l/0","value":[`+times(100, "{}")+`]}`)+`]`),
		apply("apply, objects in YAML", 413, memoryObjects+"frees/x", yamlHead+"l: ["+times(1_000_000, "{}")+"]\n"),
		apply("apply, objects in YAML with duplicates",
			413, memoryObjects+"frees/x", yamlHead+"d: 1\nd: 2\nl: ["+times(1_000_000, "{}")+"]\n"),
		apply("apply, containers", 413, memoryPods+"/x", core("Pod", `"spec":{"containers":[`+times(parts, "{}")+`]}`)),
		apply("apply, a key for each field", 413, memoryObjects+"frees/x", custom("Free", members(parts, `""`))),
		apply("apply, as many fields as it takes",
			201, memoryPods+"/x", core("Pod", `"spec":{"containers":[`+strings.Join(variables, ",")+`]}`)),
		patch("merge", 200, merge, `{"l":[`+times(parts, "{}")+`]}`),
		patch("merge of nothing", 415, strategic, `{}`),
	}
}

// protobufPod is a pod with n empty containers, each of two bytes.
func protobufPod(t *testing.T, n int) string {
	t.Helper()
	containers := strings.Repeat("\x12\x00", n)                                             // field 2 of a PodSpec
	pod := "\x12" + string(binary.AppendUvarint(nil, uint64(len(containers)))) + containers // field 2 of a Pod
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: []byte(pod)}
	text, err := envelope.Marshal()
	if err != nil {
		t.Fatalf("encode the envelope: %v", err)
	}
	return "k8s\x00" + string(text)
}

// TestRequestsNeedBoundedMemory sends, one after the other, requests that multiply
// their bytes on the way to an object.
func TestRequestsNeedBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("15 s of CPU: large bodies, and many collections")
	}
	c := assemble(t, revlog.Options{Memory: true}).caller(t)
	item := func(schema string) string { return `{"type":"array","items":` + schema + `}` }
	for kind, schema := range map[string]string{
		"Free": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		"Fat": `{"type":"object","properties":{"l":` +
			item(`{"type":"object","properties":{"a":{"type":"string","default":"`+strings.Repeat("x", 50_000)+`"}}}`) +
			`,"m":` +
			item(
				`{"type":"object","properties":{"a":{"type":"object",`+
					`"x-kubernetes-preserve-unknown-fields":true,"default":{"l":[`+times(100, "{}")+`]}}}}`) + `}}`,
		"Typed": `{"type":"object","properties":{"l":` +
			item(`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`) +
			`,"s":` + item(`{"type":"string"}`) + `}}`,
		"Ruled": `{"type":"object","properties":{"l":{"type":"array","maxItems":100000,"items":{"type":"object",` +
			`"properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"has(self.a)"}]}}}}`,
	} {
		c.must(http.StatusCreated, http.MethodPost, memoryDefinitions, definitionOf(kind, schema))
	}
	c.must(http.StatusCreated, http.MethodPost, memoryObjects+"frees",
		`{"apiVersion":"t.example.com/v1","kind":"Free","metadata":{"name":"a"},"l":[`+times(100, "{}")+`]}`)
	for _, in := range heavyRequests(t) {
		var r reply
		began := time.Now()
		most := heaviest(func() { r = c.do(in.method, in.path, in.body, "Content-Type: "+in.media) })
		t.Logf("%-30s %d for %4d KiB: %3d MiB in %v",
			in.name, r.code, len(in.body)>>10, most>>20, time.Since(began).Round(time.Millisecond))
		if r.code != in.code {
			t.Errorf("%s: %d, want %d: %.300s", in.name, r.code, in.code, r.body)
		}
		if most > requestBound {
			t.Errorf("%s: %d MiB were in use, want at most %d", in.name, most>>20, requestBound>>20)
		}
		if !json.Valid(r.body) {
			t.Errorf("%s: the answer is no JSON: %.300s", in.name, r.body)
		}
		if r.code == http.StatusCreated {
			c.must(http.StatusOK, http.MethodDelete, in.path+"/x", "")
		}
	}
}

// TestOpenAPIOfALargeDefinitionNeedsBoundedMemory requests OpenAPI v2 and v3 of a definition with
// a third of the properties that an object may have, so it may take a third of the memory.
func TestOpenAPIOfALargeDefinitionNeedsBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of CPU: a definition with 30 000 properties, and many collections")
	}
	c := assemble(t, revlog.Options{Memory: true}).caller(t)
	large := `{"type":"object","properties":{` + members(30_000, `{"type":"string"}`) + `}}`
	c.must(http.StatusCreated, http.MethodPost, memoryDefinitions, definitionOf("Large", large))
	for _, of := range [][2]string{
		{"/openapi/v2", "application/json"},
		{"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		{"/openapi/v3/apis/t.example.com/v1", "application/json"},
	} {
		path, accept := of[0], of[1]
		var r reply
		began := time.Now()
		most := heaviest(func() { r = c.do(http.MethodGet, path, "", "Accept: "+accept) })
		t.Logf("%s, %s: %d, %d KiB: %d MiB in %v",
			path, accept, r.code, len(r.body)>>10, most>>20, time.Since(began).Round(time.Millisecond))
		if r.code != http.StatusOK || !strings.Contains(string(r.body), "com.example.t.v1.Large") {
			t.Errorf("%s, %s: %d, %.100q", path, accept, r.code, r.body)
		}
		if most > requestBound/3 {
			t.Errorf("%s, %s: %d MiB were in use, want at most %d", path, accept, most>>20, requestBound/3>>20)
		}
	}
}
