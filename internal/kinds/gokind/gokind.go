// Package gokind makes the built-in kinds of the Kubernetes API out of their Go structs: what decodes,
// defaults, validates, patches and encodes an object is the same for all, and a [Row] says what is
// particular to one. The groups (packages core, apps, batch, …) have the rows, and package builtin
// puts them together.
//
// Bodies in protobuf have an envelope, which is read here ([DecodeDeleteOptions] reads one too);
// answers are messages without it ([EncodeScale], [EncodeMetadata], and Protobuf of each resource).
// A [Form] converts the messages of a version that is not served.
package gokind

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/deprecation"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Object is a pointer to a Go struct of k8s.io/api.
type Object[T any] interface {
	*T
	runtime.Object
	Unmarshal(data []byte) error
	Marshal() ([]byte, error)
}

// Row is one line of the table of kinds. Its zero value is the usual case: a
// namespaced kind with all verbs, no subresource, and updates that need no
// resourceVersion. The fields without a comment are those of [kinds.Resource] in short.
type Row struct {
	Group, Version, Kind string
	Plural               string // "": the kind in lower case with an s
	Short                []string
	Categories           []string
	Cluster              bool
	Status               bool
	Scale                *kinds.ScalePaths
	Subresources         []kinds.Subresource
	NoDeleteCollection   bool
	Question             bool // it is asked and answered, and not stored: reviews, and bindings of pods

	Name           func(string) []string // nil: kinds.SubdomainName
	NameByUID      bool
	NeedsVersion   bool // an update must give a resourceVersion
	CreateOnUpdate bool
	Signed         func(*unstructured.Unstructured, user.Info)
	Defaults       func(tree.Object)              // nil: nothing to default
	Complete       func(u, old tree.Object) error // see kinds.Writes, as of the next
	Generation     kinds.Generation
	Keeps          []string
	KeepsManaged   bool
	StatusKeeps    []string
	StatusOnCreate bool
	// Emptied are lists of the status of which Complete sees whether they are empty or left out.
	Emptied       []string
	AnyFinalizers bool // also without a domain

	ReturnDeleted    bool
	Grace            time.Duration
	OrphansByDefault bool
	OrphanWarning    string
	NoDependents     bool

	Fields           []wire.FieldPath
	Aliases          map[string]string
	NoNamespaceField bool

	Table kinds.Table // empty: name and age
}

// Rules are the validation rules of one kind. Each may be nil.
type Rules[P any] struct {
	// First are of every write, before the others: what they find is the only answer. old is nil for a creation.
	// Upstream checks it before its strategies, in what begins a write.
	First  func(obj, old P) field.ErrorList
	Object func(obj P) field.ErrorList      // of every write
	Create func(obj P) field.ErrorList      // of every creation, besides
	Update func(obj, old P) field.ErrorList // of every update, besides
	Status func(obj, old P) field.ErrorList // of every update of the status, instead of the others
	// Warn and WarnStatus return the warnings about a write of the object, and of its status,
	// that is accepted. old is nil for a creation.
	Warn, WarnStatus func(obj, old P) []string
}

// Of makes a resource of a row of the table.
func Of[T any, P Object[T]](r Row, check Rules[P]) *kinds.Resource {
	r = r.completed()
	verbs, stored := r.verbs()
	res := &kinds.Resource{
		Group: r.Group, Version: r.Version, StorageVersion: stored,
		Kind: r.Kind, ListKind: r.Kind + "List", Plural: r.Plural, Singular: strings.ToLower(r.Kind),
		ShortNames: r.Short, Categories: r.Categories, Namespaced: !r.Cluster, Verbs: verbs,
		HasStatus: r.Status, Scale: r.Scale, Subresources: r.Subresources,
		Writes: r.writes(),
		Deletes: kinds.Deletes{
			ReturnDeleted: r.ReturnDeleted, GracefulSeconds: int64(r.Grace / time.Second),
			OrphansByDefault: r.OrphansByDefault, OrphanWarning: r.OrphanWarning, NoDependents: r.NoDependents,
		},
		Selectable: kinds.Selectable{Fields: r.Fields, FieldAliases: r.Aliases, NoNamespaceField: r.NoNamespaceField},
		Table:      r.Table,
		GoType:     reflect.TypeFor[T](),
	}
	res.Deprecation = deprecated[T, P](res.GVK())
	typ := newType[T, P](res.GVK())
	typ.hasStatus, typ.validName, typ.defaults, typ.check, typ.emptied = r.Status, r.Name, r.Defaults, check, r.Emptied
	res.Type, res.Protobuf, res.FromProtobuf = typ, typ.encodeProtobuf, typ.decodeMessage
	if r.Defaults == nil {
		res.AppendProtobuf = typ.appendMessage
	}
	if r.Status {
		res.CheckStatus = typ.validateStatus
	}
	return res
}

// completed returns the row with what its empty fields mean.
func (r Row) completed() Row {
	if r.Name == nil {
		r.Name = kinds.SubdomainName
	}
	if r.Plural == "" {
		r.Plural = strings.ToLower(r.Kind) + "s"
	}
	if r.Table.Row == nil {
		r.Table = table.Default()
	}
	r.Table.RowsSince = max(r.Table.RowsSince, table.Oldest)
	return r
}

// verbs returns the verbs, and the version in which objects are stored, if they are.
func (r Row) verbs() (verbs []string, stored string) {
	if r.Question {
		return []string{"create"}, ""
	}
	verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if r.NoDeleteCollection {
		verbs = slices.Delete(verbs, 2, 3)
	}
	return verbs, r.Version
}

// writes returns what writes of the kind do.
func (r Row) writes() kinds.Writes {
	w := kinds.Writes{
		PatchTypes: []string{
			string(types.JSONPatchType), string(types.MergePatchType),
			string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
		},
		UnconditionalUpdate: !r.NeedsVersion, CreateOnUpdate: r.CreateOnUpdate, NameByUID: r.NameByUID, ValidName: r.Name,
		Signed: r.Signed, Complete: r.Complete, Generation: r.Generation, KeptParts: r.Keeps, KeptPartsManaged: r.KeepsManaged,
		Finalizers: kinds.DomainFinalizers, StatusOnCreate: r.StatusOnCreate, StatusByDefault: true, StatusKeeps: r.StatusKeeps,
	}
	if r.AnyFinalizers {
		w.Finalizers = kinds.AnyFinalizers
	}
	return w
}

// Body decodes the bodies of a subresource that are of a kind of their own, in its version
// or another that has the same fields.
func Body[T any, P Object[T]](gvk kinds.GroupVersionKind, others ...string) kinds.Type {
	t := newType[T, P](gvk)
	t.validName = kinds.SubdomainName
	for _, version := range others {
		t.also = append(t.also, runtimeschema.GroupVersion{Group: gvk.Group, Version: version})
	}
	return t
}

// All is the category that `kubectl get all` asks for.
const All = "all"

// KeptMetadata are the members of metadata that a write of the status does not change, for kinds
// whose strategy resets all that users write.
func KeptMetadata() []string {
	return []string{"labels", "annotations", "finalizers", "ownerReferences"}
}

// deprecated returns the warning that every request for a deprecated kind gets; "" for the
// others. The Go struct knows it.
func deprecated[T any, P Object[T]](gvk kinds.GroupVersionKind) string {
	obj := P(new(T))
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return deprecation.WarningMessage(obj)
}

// At is a selectable field whose label is its path.
func At(label string) wire.FieldPath {
	return wire.FieldPath{Label: label, Path: strings.Split(label, ".")}
}

// Or is At with a value for objects that have no such field.
func Or(label, value string) wire.FieldPath {
	f := At(label)
	f.Default = value
	return f
}
