package custom

import structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

// members is what a schema says about which members a value may have. With it most
// objects are found to need no pruning, without the copies of schemas that pruning makes.
type members struct {
	named      map[string]*members
	additional *members // nil: other members are unknown
	items      *members // nil: they may have no members
	open       bool     // unknown members are kept
	embedded   bool     // x-kubernetes-embedded-resource
	defaulted  bool     // it has a default
	defaults   int      // how many of named have one
}

func membersOf(s *structuralschema.Structural) *members {
	if s == nil {
		return nil
	}
	m := &members{
		items: membersOf(s.Items), open: s.XPreserveUnknownFields, embedded: s.XEmbeddedResource,
		defaulted: s.Default.Object != nil,
	}
	for name, property := range s.Properties {
		if m.named == nil {
			m.named = map[string]*members{}
		}
		m.named[name] = membersOf(&property)
		if m.named[name].defaulted {
			m.defaults++
		}
	}
	if s.AdditionalProperties != nil {
		// The values of additionalProperties: true have no members.
		if m.additional = membersOf(s.AdditionalProperties.Structural); m.additional == nil {
			m.additional = &members{}
		}
	}
	return m
}

// clean reports whether upstream's pruning, removal of nulls and coercion certainly leave
// an object of the schema as it is, besides its metadata.
func (m *members) clean(object map[string]any) bool {
	if m.embedded {
		return false
	}
	for name, value := range object {
		switch name {
		case "apiVersion", "kind", "metadata":
			continue
		}
		if !m.cleanMember(name, value) {
			return false
		}
	}
	return true
}

func (m *members) cleanMember(name string, value any) bool {
	of := m.named[name]
	if of == nil {
		of = m.additional
	}
	if of == nil {
		return m.open
	}
	return of.cleanValue(value)
}

func (m *members) cleanValue(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		if m.embedded {
			return false
		}
		for name, member := range v {
			if !m.cleanMember(name, member) {
				return false
			}
		}
	case []any:
		if m.open {
			return false
		}
		items := m.items
		if items == nil {
			items = &members{}
		}
		for _, item := range v {
			if !items.cleanValue(item) {
				return false
			}
		}
	}
	return true
}
