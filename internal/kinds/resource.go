package kinds

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FieldValidation says what to do with unknown and duplicate fields of a body.
type FieldValidation string

// The values of the query parameter fieldValidation; the default is Warn.
const (
	FieldsIgnore FieldValidation = "Ignore"
	FieldsWarn   FieldValidation = "Warn"
	FieldsStrict FieldValidation = "Strict"
	// FieldsApplied is FieldsIgnore for what server-side apply has merged: a null that a
	// custom resource must not have stays, so that its validation refuses it.
	FieldsApplied FieldValidation = "Applied"
)

// Resource is one served version of a resource type. It is immutable.
type Resource struct {
	Group      string
	Version    string
	Plural     string // "configmaps", as in paths
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// Verbs in the order of discovery: create, delete, deletecollection, get,
	// list, patch, update, watch.
	Verbs []string
	// HasStatus and Scale say which subresources are served. With HasStatus the
	// main endpoint ignores changes of status and /status changes nothing else.
	HasStatus bool
	Scale     *ScalePaths
	// Subresources are those besides status and scale.
	Subresources []Subresource
	// StorageVersion is the version in which objects are stored; another served
	// version differs in apiVersion only (conversion strategy None), unless it has a
	// Conversion or Converts. It is "" for a resource that stores nothing, such as a review.
	StorageVersion string
	// Conversion is set for a view of another resource's objects.
	Conversion *Conversion
	// Unserved is set for a version that is not served. Only Catalog.All finds it, and
	// Catalog.Storage if it is the storage version.
	Unserved bool
	// Deprecation is the warning that every request to a deprecated version gets; "" for none.
	Deprecation string
	// Custom says that the type comes from a CustomResourceDefinition.
	Custom bool
	// Writes, Deletes, Selectable and Table are what the kind does and says of its objects; Defined
	// is what a definition says of those of a custom resource.
	Writes
	Deletes
	Selectable
	Table
	Defined

	// GoType is the struct of k8s.io/api behind a built-in kind; nil for custom
	// ones. OpenAPI is the openAPIV3Schema of a custom resource's version as JSON;
	// nil for built-in kinds. Both are for the OpenAPI documents.
	GoType  reflect.Type
	OpenAPI []byte
	// Type is what the type itself knows; never nil.
	Type Type
	// Protobuf encodes an object, given as JSON, as the protobuf message of its kind,
	// without an envelope. Equal JSON makes equal messages. It is nil for custom resources,
	// which have no protobuf.
	Protobuf func(object []byte) ([]byte, error)
	// FromProtobuf is the reverse: the tree that the Go struct of a message is encoded as, with
	// apiVersion and kind. It does not keep message.
	FromProtobuf func(message []byte) (map[string]any, error)
	// AppendProtobuf appends what wire.Canonical makes of the tree of FromProtobuf, with the defaults of the kind and
	// without metadata.selfLink, in a fraction of the time. It returns false for a message with anything
	// unusual in it, which FromProtobuf may decode. It is nil for a kind with defaults, and where FromProtobuf is.
	AppendProtobuf func(b, message []byte) ([]byte, bool)
}

// ScalePaths are the JSON paths of a scale subresource, without the leading dot.
type ScalePaths struct {
	SpecReplicas   []string
	StatusReplicas []string
	Selector       []string // where the label selector stands (a string, or a LabelSelector object); nil: none
	// Strict says that what stands there may be anything, and must be what a scale has. It is set for
	// custom resources, whose desired replicas may not be missing either.
	Strict bool
}

// Type is the knowledge of one kind: a Go type of k8s.io/api for the built-in
// kinds, a structural schema for custom ones. Its methods are safe for concurrent
// use. Errors that a client may see are *wire.StatusError.
type Type interface {
	// Decode reads a JSON body into a tree: it checks kind, apiVersion and types, drops
	// unknown fields, and returns the warnings of fieldValidation=Warn.
	// With FieldsStrict it refuses unknown and duplicate fields (400). It refuses
	// what CheckSize does.
	Decode(body []byte, v FieldValidation) (*unstructured.Unstructured, []string, error)
	// Default fills in defaults, in place. It refuses with 413, and changes nothing,
	// when they would make more of the object than it may be.
	Default(u *unstructured.Unstructured) error
	// Validate checks a whole object; old is nil for a creation. metadata is
	// checked by the caller, except for the rules of the kind's own name. The other result
	// are warnings for the client. For a built-in kind there are none beside errors, and they
	// count only if nothing else is wrong with the object either.
	Validate(u, old *unstructured.Unstructured) (field.ErrorList, []string)
	// DecodeProtobuf turns the body of a protobuf request (the k8s\0 envelope) into
	// JSON; custom resources answer *wire.StatusError with 415.
	DecodeProtobuf(body []byte) ([]byte, error)
	// StrategicMerge applies a strategic merge patch to original (both JSON);
	// custom resources answer *wire.StatusError with 415.
	StrategicMerge(original, patch []byte) ([]byte, error)
}

// GVR returns group, version and plural.
func (r *Resource) GVR() GroupVersionResource {
	return GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// GVK returns group, version and kind.
func (r *Resource) GVK() GroupVersionKind {
	return GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// GR returns group and plural: "configmaps" or "deployments.apps" as a string.
// The store's keys begin with that of Home.
func (r *Resource) GR() GroupResource { return GroupResource{Group: r.Group, Resource: r.Plural} }

// APIVersion returns "v1" or "group/version".
func (r *Resource) APIVersion() string { return r.GVK().GroupVersion().String() }

// APIVersionOf returns "v1" or "group/version" for another version of the resource.
func (r *Resource) APIVersionOf(version string) string {
	return schema.GroupVersion{Group: r.Group, Version: version}.String()
}

// NamespaceScoped returns Namespaced; a method for interfaces.
func (r *Resource) NamespaceScoped() bool { return r.Namespaced }
