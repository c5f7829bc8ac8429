package builtin_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/conformance/builtin"
)

// additions are what is written to the subresources besides the status, by resource and
// name: members of an object, and members of these.
var additions = map[string]string{
	"certificatesigningrequests.certificates.k8s.io/approval": `{"status":{"conditions":[
		{"type":"Approved","status":"True","reason":"Because","message":"text","lastUpdateTime":"2026-01-02T03:04:05Z"}]}}`,
	"namespaces/finalize": `{"spec":{"finalizers":["example.org/other","kubernetes"]}}`,
	"pods/ephemeralcontainers": `{"spec":{"ephemeralContainers":[
		{"name":"debug","image":"busybox","command":["sh"],"stdin":true,"tty":true,"targetContainerName":"web",
		"env":[{"name":"A","value":"b"}],"securityContext":{"runAsUser":1000}}]}}`,
	"pods/resize": `{"spec":{"initContainers":[
		{"name":"first","image":"first","resources":{"limits":{"cpu":"400m"},"requests":{"cpu":"300m"}},
		"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]},
		{"name":"side","image":"side","restartPolicy":"Always","resources":{"requests":{"memory":"20Mi"}}}],
		"containers":[{"name":"web","image":"web",
		"resources":{"requests":{"cpu":"200m","memory":"32Mi","example.org/device":"1"},
		"limits":{"cpu":"1","memory":"256Mi","example.org/device":"1"}},"resizePolicy":[
		{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}]},
		{"name":"second","image":"second","resources":{"limits":{"memory":"1Mi"}}}],
		"resources":{"requests":{"cpu":"2","memory":"1Gi"},"limits":{"cpu":"3"}},
		"volumes":[{"name":"tmp","emptyDir":{"medium":"Memory","sizeLimit":"2Mi"}}]}}`,
}

// playedOn are the manifests whose subresources are written, if they are not the first of the kind.
var playedOn = map[string]string{"pods/resize": "sized"}

// subresources writes the addition to each subresource of an object, and mutations of it.
func (s suite) subresources(t *testing.T, o stored, first bool) {
	t.Helper()
	for _, sub := range o.target.Resource.Subresources {
		o.target.Subresource = sub.Name
		if sub.Name == "status" || !s.upstream.Has(o.target) {
			continue
		}
		name := o.target.Resource.GR().String() + "/" + sub.Name
		if on := playedOn[name]; on == "" && !first || on != "" && on != o.target.Name {
			continue
		}
		text := additions[name]
		if text == "" {
			t.Errorf("nothing is written to the subresource %s", sub.Name)
			continue
		}
		whole := versioned(t, o.upstream.Object)
		others := add(whole, object(t, []byte(text)))
		skip := func(path string) bool {
			return generated(path) || path == "metadata.name" || slices.Contains(others, path)
		}
		cases := []builtin.Case{{What: "the addition", Body: body(t, whole)}}
		s.changes(t, o, append(cases, builtin.Mutate(whole, builtin.Full, skip)...))
	}
}

// add adds an addition to an object, and returns the paths of the members beside those
// that it has added.
func add(whole, addition map[string]any) []string {
	var others []string
	for member, value := range addition {
		part, is := whole[member].(map[string]any)
		if !is {
			part = map[string]any{}
			whole[member] = part
		}
		added, _ := value.(map[string]any)
		for name := range part {
			if _, has := added[name]; !has {
				others = append(others, member+"."+name)
			}
		}
		maps.Copy(part, added)
	}
	return others
}
