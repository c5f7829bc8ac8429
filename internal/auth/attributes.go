package auth

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Upstream returns the attributes of a user's request as upstream has them. Selectors that cannot be read are left out
// with their errors (endpoints/filters/authorization.go GetAuthorizerAttributes).
func (a Attributes) Upstream(u user.Info) authorizer.Attributes {
	made := authorizer.AttributesRecord{
		User: u, Verb: a.Verb, Path: a.Path, ResourceRequest: a.Path == "",
		APIGroup: a.Resource.Group, APIVersion: a.Version, Resource: a.Resource.Resource, Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name,
	}
	if a.FieldSelector != "" {
		selector, err := fields.ParseSelector(a.FieldSelector)
		made.FieldSelectorParsingErr = err
		if err == nil && len(selector.Requirements()) > 0 {
			made.FieldSelectorRequirements = selector.Requirements()
		}
	}
	if a.LabelSelector != "" {
		selector, err := labels.Parse(a.LabelSelector)
		made.LabelSelectorParsingErr = err
		if err == nil {
			if requirements, _ := selector.Requirements(); len(requirements) > 0 {
				made.LabelSelectorRequirements = requirements
			}
		}
	}
	return made
}

// FromUpstream returns attributes that upstream has made.
func FromUpstream(a authorizer.Attributes) Attributes {
	if !a.IsResourceRequest() {
		return Attributes{Verb: a.GetVerb(), Path: a.GetPath()}
	}
	made := Attributes{
		Verb: a.GetVerb(), Resource: schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()},
		Version: a.GetAPIVersion(), Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
	}
	if requirements, _ := a.GetFieldSelector(); len(requirements) > 0 {
		made.FieldSelector = fieldsText(requirements)
	}
	if requirements, _ := a.GetLabelSelector(); len(requirements) > 0 {
		made.LabelSelector = labels.NewSelector().Add(requirements...).String()
	}
	return made
}

func fieldsText(requirements fields.Requirements) string {
	var terms []fields.Selector
	for _, r := range requirements {
		term := fields.OneTermEqualSelector(r.Field, r.Value)
		if r.Operator == "!=" {
			term = fields.OneTermNotEqualSelector(r.Field, r.Value)
		}
		terms = append(terms, term)
	}
	return fields.AndSelectors(terms...).String()
}
