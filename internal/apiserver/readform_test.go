package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestKeptBlocksOfListsFollowTheSchema: the resourceVersions of objects are as they were when their
// schema has changed, but neither a compressed list nor a table may be the one of before.
func TestKeptBlocksOfListsFollowTheSchema(t *testing.T) {
	d := openServer(t, nil)
	const payload, field = `"payload":{"type":"string"}`, `"c":{"type":"string","default":"new"}`
	schema := func(properties string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{` + properties + `}}}}`
	}
	d.define("bars", `"kind":"Bar"`, "",
		`"additionalPrinterColumns":[{"name":"C","type":"string","jsonPath":".spec.c"}],"schema":{"openAPIV3Schema":`+schema(payload)+`}`)
	d.fillBars()
	redefine := func(properties string) {
		d.redefineBars(`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":` + schema(properties) + `}]`)
	}
	metadata := "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	before := string(d.do("GET", bars, "", metadata, "Accept-Encoding: gzip").plain(t))
	for _, c := range []struct{ form, shown string }{
		{"Accept: application/json", `"c":"new"`},
		{acceptTable, `"cells":["b-000","new"]`},
		{"Accept: application/json;as=Table;g=meta.k8s.io;v=v1" + drops, `"cells":["b-000","new"]`},
	} {
		for _, has := range []bool{false, true, false} {
			if has {
				redefine(payload + "," + field)
			}
			for again := range 2 {
				body := string(d.do("GET", bars, "", c.form, "Accept-Encoding: gzip").plain(t))
				if strings.Contains(body, c.shown) != has || !strings.Contains(body, "b-299") {
					t.Fatalf("%s, list %d: the field is not as the schema says (it has it: %v): %.1000s",
						c.form, again, has, body)
				}
			}
			if has {
				redefine(payload)
			}
		}
	}
	if after := string(d.do("GET", bars, "", metadata, "Accept-Encoding: gzip").plain(t)); after != before {
		// Definitions are written between the two.
		cut := func(s string) string { return s[strings.Index(s, `"items"`):] }
		if cut(after) != cut(before) {
			t.Error("the metadata has changed")
		}
	}
}

// BenchmarkReadForms lists 10 000 custom resources of 1.2 KB: as they are stored, and after an edit
// of the schema that changes all of them, the first time and then again.
func BenchmarkReadForms(b *testing.B) {
	const objects = 10_000
	schema := func(more string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{"payload":{"type":"string"},` +
			`"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},` +
			`"value":{"type":"string"}}}}` + more + `}}}}`
	}
	d := openServer(b, nil)
	d.define("bars", `"kind":"Bar"`, "", `"schema":{"openAPIV3Schema":`+schema("")+`}`)
	items := strings.TrimSuffix(strings.Repeat(`{"name":"some-name","value":"some-value"},`, 12), ",")
	for i := range objects {
		body := fmt.Sprintf(
			`{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"b-%05d"},"spec":{"payload":"%s","list":[%s]}}`,
			i, strings.Repeat("x", 300), items)
		if a := d.do("POST", bars, body); a.StatusCode != http.StatusCreated {
			b.Fatal(a.body)
		}
	}
	edits := 0
	edit := func(more string) {
		edits++
		d.redefineBars(`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":` + schema(more) + `}]`)
	}
	list := func() {
		if a := d.do("GET", bars+"?resourceVersion=0", ""); a.StatusCode != http.StatusOK {
			b.Fatal(a.body)
		}
	}
	list()
	b.Run("stored", func(b *testing.B) {
		for b.Loop() {
			list()
		}
	})
	first := func(more func() string) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				edit(more())
				b.StartTimer()
				list()
			}
		}
	}
	b.Run("first-unchanged", first(func() string { return fmt.Sprintf(`,"other%d":{"type":"string"}`, edits) }))
	b.Run("first-changed", first(func() string { return fmt.Sprintf(`,"new":{"type":"string","default":"%d"}`, edits) }))
	b.Run("again-changed", func(b *testing.B) {
		for b.Loop() {
			list()
		}
	})
}
