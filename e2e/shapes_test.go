package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	acceptTable = "Accept: " +
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	acceptPartial = "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	acceptPartels = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
)

// columns are the names of a table's columns.
func columns(table tree) string {
	var names []string
	definitions, _ := table.at("columnDefinitions").([]any)
	for _, d := range definitions {
		column, _ := d.(map[string]any)
		names = append(names, tree(column).text("name"))
	}
	return strings.Join(names, " ")
}

// rows are the keys of the objects in a table's rows.
func rows(table tree) string {
	var keys []string
	all, _ := table.at("rows").([]any)
	for _, r := range all {
		row, _ := r.(map[string]any)
		object, _ := row["object"].(map[string]any)
		keys = append(keys, tree(object).key())
	}
	return strings.Join(keys, " ")
}

func TestTableHasARowForEachItem(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		table := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?limit=2", "", acceptTable)
		if table.text("kind") != "Table" || table.text("apiVersion") != "meta.k8s.io/v1" || table.rv() != w.moments["d"] ||
			table.text("metadata", "continue") == "" {
			t.Errorf("table %v, want the first page of one at %s", table, w.moments["d"])
		}
		if columns(table) != "Name Data Age" || rows(table) != "default-b/d default/a" {
			t.Errorf("columns %q, rows %q", columns(table), rows(table))
		}
		if cell, object := table.at("rows", "0", "cells", "0"), table.text("rows",
			"0", "object", "kind"); cell != "d" || object != "PartialObjectMetadata" {
			t.Errorf("the first cell is %v, its object a %s", cell, object)
		}
		none := c.must(http.StatusOK, http.MethodGet, configMaps+"/a?includeObject=None", "", acceptTable)
		if none.at("rows", "0", "object") != nil || none.rv() != w.moments["a"] {
			t.Errorf("the table of one object is %v", none)
		}
		whole := c.must(http.StatusOK, http.MethodGet, configMaps+"/a?includeObject=Object", "", acceptTable)
		if whole.text("rows", "0", "object", "data", "x") != "1" {
			t.Errorf("the table with the whole object is %v", whole)
		}
	})
}

func TestTableWatchSendsItsColumnsOnce(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		s := c.watch(allConfigMaps+"?watch=1&timeoutSeconds=1&allowWatchBookmarks=true", acceptTable)
		frames, err := s.rest()
		if err != nil {
			t.Fatalf("read the rest: %v", err)
		}
		var shown []string
		for i, f := range frames {
			if f.object.text("kind") != "Table" || (columns(f.object) != "") != (i == 0) {
				t.Errorf("frame %d is a %s with columns %q", i, f.object.text("kind"), columns(f.object))
			}
			shown = append(shown, f.kind+" "+rows(f.object))
		}
		if want := []string{"ADDED default-b/d", "ADDED default/a", "ADDED default/b", "BOOKMARK "}; !slices.Equal(shown, want) {
			t.Errorf("frames are %q, want %q", shown, want)
		}
		end := frames[len(frames)-1].object
		if end.text("rows", "0", "object", "metadata", "annotations", "k8s.io/initial-events-end") != "true" ||
			end.text("rows", "0", "object", "metadata", "resourceVersion") != w.moments["d"] {
			t.Errorf("the end of the initial events is %v", end)
		}
	})
}

func TestErrorsAreNeverTables(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		checkStatus(t, w, listRow{code: http.StatusNotFound, reason: "NotFound", message: `configmaps "no" not found`},
			c.do(http.MethodGet, configMaps+"/no", "", acceptTable))
		w.compact(t, w.moments["d"])
		s := c.watch(allConfigMaps+"?watch=1&resourceVersion=1", acceptTable)
		s.end("ERROR 410 Expired")
	})
}

func TestPartialObjectsHaveOnlyMetadata(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		one := c.must(http.StatusOK, http.MethodGet, configMaps+"/a", "", acceptPartial)
		if one.text("kind") != "PartialObjectMetadata" || one.text("apiVersion") != "meta.k8s.io/v1" ||
			one.key() != "default/a" || one.at("data") != nil {
			t.Errorf("partial object %v", one)
		}
		list := c.must(http.StatusOK, http.MethodGet, allConfigMaps, "", acceptPartels)
		if list.text("kind") != "PartialObjectMetadataList" || list.keys() != whole || list.rv() != w.moments["d"] ||
			list.at("items", "0", "data") != nil {
			t.Errorf("partial list %v", list)
		}
		s := c.watch(allConfigMaps+"?watch=1&resourceVersion="+w.moments["gone"], acceptPartial)
		if f := s.next(); f.String() != "ADDED default-b/d@"+w.moments["d"] || f.object.text("kind") != "PartialObjectMetadata" ||
			f.object.at("data") != nil {
			t.Errorf("partial event %v", f.object)
		}
	})
}

func TestWriteReturnsTheWholeObject(t *testing.T) {
	eachWire(t, func(t *testing.T, _ *knownHistory, c *caller) {
		o := c.must(http.StatusCreated, http.MethodPost, configMaps, configMapBody("e", "1"))
		if o.text("kind") != "ConfigMap" || o.text("metadata", "uid") == "" || o.text("metadata", "creationTimestamp") == "" ||
			o.text("data", "x") != "1" {
			t.Errorf("created %v", o)
		}
		r := c.do(http.MethodGet, configMaps+"/e", "", "Accept: application/yaml")
		if r.code != http.StatusOK || r.header.Get("Content-Type") != "application/yaml" ||
			!strings.Contains(string(r.body), "kind: ConfigMap\n") {
			t.Errorf("YAML: %d %s %s", r.code, r.header.Get("Content-Type"), r.body)
		}
	})
}
