package webhook_test

import (
	"bytes"
	"testing"
)

// TestVersionsOfCustomResourcesAreConverted has a webhook for one version of a resource, and a
// write in the other one, whose schema has another member.
func TestVersionsOfCustomResourcesAreConverted(t *testing.T) {
	s, h := start(t), newHook(t)
	version := func(name, member, storage string) string {
		return `{"name":"` + name + `","served":true,"storage":` + storage +
			`,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"both":{"type":"string"},"default":{"type":"string","default":"d"},"` + member +
			`":{"type":"string"}}}}}}}`
	}
	if _, err := s.create(s.at("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
		`{"metadata":{"name":"bars.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"bars","kind":"Bar"},"versions":[`+version("v1",
			"one", "true")+`,`+version("v2", "two", "false")+`]}}`); err != nil {
		t.Fatalf("create: %v", err)
	}
	s.configure("Mutating", "m", h.webhook("m.example.com",
		`"rules":[{"apiGroups":["t.example.com"],"apiVersions":["v1"],"resources":["bars"],"operations":["*"]}]`))
	h.patches(`[{"op":"replace","path":"/spec/both","value":"changed"}]`)
	o, err := s.create(s.at("t.example.com", "v2", "bars", "default"),
		`{"apiVersion":"t.example.com/v2","kind":"Bar","metadata":{"name":"b"},"spec":{"both":"b"}}`)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if !bytes.Contains(o.JSON(), []byte(`"both":"changed","default":"d"`)) || o.APIVersion() != "t.example.com/v2" {
		t.Errorf("%s", o.JSON())
	}
	asked := h.heard()
	if len(asked) != 1 || asked[0].Kind.Version != "v1" || asked[0].RequestKind.Version != "v2" ||
		decoded(t, asked[0].Object)["apiVersion"] != "t.example.com/v1" {
		t.Errorf("%+v", asked)
	}
}
