package openapi

import (
	_ "embed"
	"maps"
	"strings"
)

// markersText says about the types of Kubernetes what their Go comments say and their fields do
// not: which fields are required, and how lists and maps merge. The test
// TestMarkersAreUpstreams in conformance/builtin compares it with Kubernetes' own
// document, and writes it with -update. One line is one type:
//
//	NAME [required=FIELD,…] [map=TYPE] [FIELD:LIST-TYPE[:KEY,…]]…
//
//go:embed markers.txt
var markersText string

// markers are those of one type.
type markers struct {
	required []string
	mapType  string
	lists    map[string]object // the extensions of fields that are lists
	maps     map[string]string // the map types of fields
}

// readMarkers returns the markers by the name of the definition.
func readMarkers() map[string]markers {
	all := map[string]markers{}
	for line := range strings.Lines(markersText) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		m := markers{lists: map[string]object{}, maps: map[string]string{}}
		for _, word := range words[1:] {
			if names, ok := strings.CutPrefix(word, "required="); ok {
				m.required = strings.Split(names, ",")
				continue
			}
			if typ, ok := strings.CutPrefix(word, "map="); ok {
				m.mapType = typ
				continue
			}
			parts := strings.Split(word, ":")
			if len(parts) < 2 {
				continue
			}
			if typ, ok := strings.CutPrefix(parts[1], "map="); ok {
				m.maps[parts[0]] = typ
				continue
			}
			list := object{"x-kubernetes-list-type": parts[1]}
			if len(parts) == 3 {
				list["x-kubernetes-list-map-keys"] = strings.Split(parts[2], ",")
			}
			m.lists[parts[0]] = list
		}
		all[words[0]] = m
	}
	return all
}

// apply adds the markers of a type to its definition.
func (m markers) apply(def, props object) {
	if m.mapType != "" {
		def["x-kubernetes-map-type"] = m.mapType
	}
	if delete(def, "required"); len(m.required) > 0 {
		def["required"] = m.required
	}
	for field, list := range m.lists {
		if prop, ok := props[field].(object); ok {
			maps.Copy(prop, list)
		}
	}
	for field, typ := range m.maps {
		if prop, ok := props[field].(object); ok {
			prop["x-kubernetes-map-type"] = typ
		}
	}
}
