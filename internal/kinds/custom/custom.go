// Package custom turns CustomResourceDefinitions into resources.
//
// A definition is the CustomResourceDefinition object: it is
// defaulted, validated and, since there is no controller to do it later,
// established by the write itself ([Establish]). A version of it becomes
// a [kinds.Resource] ([Resources]). Its type decodes, prunes, defaults and
// validates objects by the structural schema. The schema is compiled when it is
// used, so that a server with many definitions starts fast, and dropped when it is not
// used any more.
//
// read.go has what readers see of a stored object; members.go how a body is decoded; check.go
// (tolerated) and warnings.go what clients are warned about; growth.go bounds on what defaults
// add.
package custom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// definition is the part of a CustomResourceDefinition that is needed to serve it. The
// schemas stay bytes until they are needed.
type definition struct {
	Spec struct {
		Group                 string                        `json:"group"`
		Scope                 apiextensionsv1.ResourceScope `json:"scope"`
		PreserveUnknownFields bool                          `json:"preserveUnknownFields"`
		Versions              []definedVersion              `json:"versions"`
		Conversion            struct {
			Strategy apiextensionsv1.ConversionStrategyType `json:"strategy"`
			Webhook  *apiextensionsv1.WebhookConversion     `json:"webhook"`
		} `json:"conversion"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string                                      `json:"storedVersions"`
		AcceptedNames  apiextensionsv1.CustomResourceDefinitionNames `json:"acceptedNames"`
		Conditions     []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

type definedVersion struct {
	Name               string  `json:"name"`
	Served             bool    `json:"served"`
	Storage            bool    `json:"storage"`
	Deprecated         bool    `json:"deprecated"`
	DeprecationWarning *string `json:"deprecationWarning"`
	Schema             struct {
		OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
	} `json:"schema"`
	Subresources             apiextensionsv1.CustomResourceSubresources       `json:"subresources"`
	AdditionalPrinterColumns []apiextensionsv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns"`
	SelectableFields         []apiextensionsv1.SelectableField                `json:"selectableFields"`
}

// Resources returns the versions of a CustomResourceDefinition; those that are not served
// are marked as unserved. There are none when the definition is not established. The
// definition is JSON as [wire.Object] has it.
func Resources(crd []byte) ([]*kinds.Resource, error) {
	var d definition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(crd, &d); err != nil {
		return nil, fmt.Errorf("read custom resource definition: %w", err)
	}
	if !d.established() {
		return nil, nil
	}
	names := d.Status.AcceptedNames
	if names.Plural == "" || names.Kind == "" || d.Spec.Group == "" {
		return nil, fmt.Errorf("read custom resource definition: established, but group %q, plural %q, kind %q are not all set",
			d.Spec.Group, names.Plural, names.Kind)
	}
	storage := slices.IndexFunc(d.Spec.Versions, func(v definedVersion) bool { return v.Storage })
	if storage < 0 {
		return nil, fmt.Errorf("read custom resource definition %s.%s: no storage version", names.Plural, d.Spec.Group)
	}
	webhook, err := d.webhook()
	if err != nil {
		return nil, err
	}
	stored, coerces := d.Spec.Versions[storage].Name, webhook != nil || d.differs()
	var resources []*kinds.Resource
	var readings kinds.Readings
	var schemas []byte
	var fields []wire.FieldPath // of all versions: objects are stored in one and selected in each
	for _, v := range d.Spec.Versions {
		r := d.resource(v)
		fields = append(fields, r.Fields...)
		reading := readingOf(r, func() []wire.FieldPath { return fields })
		readings = append(readings, reading)
		schemas = fmt.Appendf(schemas, "%s %s ", v.Name, reading.Schema)
		r.StorageVersion, r.Webhook = stored, webhook
		r.Moved = slices.ContainsFunc(d.Status.StoredVersions, func(other string) bool { return other != stored })
		if !coerces {
			r.Coerce = nil
		}
		resources = append(resources, r)
	}
	for _, r := range resources {
		r.Readings, r.Schemas = readings, digest(schemas)
	}
	return resources, nil
}

func (d *definition) established() bool {
	for _, c := range d.Status.Conditions {
		if c.Type == string(apiextensionsv1.Established) {
			return c.Status == string(apiextensionsv1.ConditionTrue)
		}
	}
	return false
}

func (d *definition) resource(v definedVersion) *kinds.Resource {
	names := d.Status.AcceptedNames
	r := &kinds.Resource{
		Group: d.Spec.Group, Version: v.Name,
		Kind: names.Kind, ListKind: names.ListKind, Plural: names.Plural, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced:  d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Verbs:       []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		HasStatus:   v.Subresources.Status != nil,
		Unserved:    !v.Served,
		Deprecation: d.deprecation(v),
		Custom:      true,
		Writes: kinds.Writes{
			Generation: kinds.GenerationOfContent,
			ValidName:  kinds.SubdomainName,
			PatchTypes: []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)},
			Finalizers: kinds.AdvisedFinalizers, WarnsOfInvalid: true, StatusAlone: true,
		},
		Table:   tableOf(v.AdditionalPrinterColumns),
		OpenAPI: bytes.Clone(v.Schema.OpenAPIV3Schema),
	}
	for _, f := range v.SelectableFields {
		r.Fields = append(r.Fields, wire.FieldPath{Label: strings.TrimPrefix(f.JSONPath, "."), Path: splitPath(f.JSONPath)})
	}
	if s := v.Subresources.Scale; s != nil {
		r.Scale = &kinds.ScalePaths{
			SpecReplicas: splitPath(s.SpecReplicasPath), StatusReplicas: splitPath(s.StatusReplicasPath), Strict: true,
		}
		if s.LabelSelectorPath != nil {
			r.Scale.Selector = splitPath(*s.LabelSelectorPath)
		}
	}
	t := newType(r, d.Spec.PreserveUnknownFields)
	r.Type, r.Coerce = t, t.Coerce
	if r.HasStatus {
		r.CheckStatus = t.ValidateStatus
	}
	return r
}

// differs reports whether the versions have different schemas.
func (d *definition) differs() bool {
	first := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	return slices.ContainsFunc(d.Spec.Versions, func(v definedVersion) bool {
		return !bytes.Equal(v.Schema.OpenAPIV3Schema, first)
	})
}

// webhook returns what converts the objects; nil for the strategy None.
func (d *definition) webhook() (*kinds.Webhook, error) {
	if d.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		return nil, nil
	}
	given := d.Spec.Conversion.Webhook
	if given == nil || given.ClientConfig == nil {
		return nil, fmt.Errorf("read custom resource definition %s.%s: conversion by webhook without a clientConfig",
			d.Status.AcceptedNames.Plural, d.Spec.Group)
	}
	w := &kinds.Webhook{CABundle: given.ClientConfig.CABundle, ReviewVersions: given.ConversionReviewVersions}
	if s := given.ClientConfig.Service; s != nil {
		w.Service = &kinds.ServiceReference{Namespace: s.Namespace, Name: s.Name, Port: defaultWebhookPort}
		if s.Port != nil {
			w.Service.Port = *s.Port
		}
		if s.Path != nil {
			w.Service.Path = *s.Path
		}
	} else if given.ClientConfig.URL != nil {
		w.URL = *given.ClientConfig.URL
	}
	return w, nil
}

// deprecation is the warning of a deprecated version: the definition's own text,
// or one that names the newest version that is not deprecated.
func (d *definition) deprecation(v definedVersion) string {
	if !v.Deprecated {
		return ""
	}
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	kind := d.Status.AcceptedNames.Kind
	text := fmt.Sprintf("%s/%s %s is deprecated", d.Spec.Group, v.Name, kind)
	newest := v.Name
	for _, other := range d.Spec.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(newest, other.Name) < 0 {
			newest = other.Name
		}
	}
	if newest != v.Name {
		text += fmt.Sprintf("; use %s/%s %s", d.Spec.Group, newest, kind)
	}
	return text
}

// splitPath splits a simple JSON path such as ".spec.replicas" or
// ".metadata.annotations['example.com/a']" into its names.
func splitPath(path string) []string {
	var names []string
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case strings.HasPrefix(path, "['"):
			name, rest, _ := strings.Cut(path[2:], "']")
			names, path = append(names, name), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end <= 0 {
				end = len(path)
			}
			names, path = append(names, path[:end]), path[end:]
		}
	}
	return names
}
