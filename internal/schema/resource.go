package schema

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/kube"
)

// FieldValidation says what to do with unknown and duplicate fields of a body.
type FieldValidation string

// The values of the query parameter fieldValidation; the default is Warn.
const (
	FieldsIgnore FieldValidation = "Ignore"
	FieldsWarn   FieldValidation = "Warn"
	FieldsStrict FieldValidation = "Strict"
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
	// StorageVersion is the version in which objects are stored; another served
	// version differs in apiVersion only (conversion strategy None).
	StorageVersion string
	// Unserved is set for a storage version that is not served: only
	// Catalog.Storage finds it.
	Unserved bool
	// Deprecation is the warning that every request to a deprecated version gets; "" for none.
	Deprecation string
	// Custom says that the type comes from a CustomResourceDefinition.
	Custom bool
	// UnconditionalUpdate allows PUT without resourceVersion; CreateOnUpdate
	// makes PUT of a missing object create it.
	UnconditionalUpdate bool
	CreateOnUpdate      bool
	// ReturnDeleted makes DELETE answer with the object instead of a Status.
	ReturnDeleted bool
	// StatusOnCreate keeps the status of a created object's body, although there
	// is a status subresource (nodes).
	StatusOnCreate bool
	// GracefulSeconds is the default deletion grace period when the object does not
	// say (pods: spec.terminationGracePeriodSeconds); 0: deleted at once.
	GracefulSeconds int64
	// ValidName returns what is wrong with the name of an object of this kind, nil
	// if nothing; Type.Validate applies it to every creation.
	ValidName func(name string) []string
	// PatchTypes are the accepted content types of PATCH, in the order of the 415 text.
	PatchTypes []string
	// Fields are the selectable fields besides metadata.name and metadata.namespace.
	Fields []kube.FieldPath
	// Columns are the columns of a Table, without the object.
	Columns []metav1.TableColumnDefinition
	// GoType is the struct of k8s.io/api behind a built-in kind; nil for custom
	// ones. OpenAPI is the openAPIV3Schema of a custom resource's version as JSON;
	// nil for built-in kinds. Both are for the OpenAPI documents.
	GoType  reflect.Type
	OpenAPI []byte
	// Type is what the type itself knows; never nil.
	Type Type
	// Row computes the cells of one object in the order of Columns; now is for ages.
	Row func(o *kube.Object, now time.Time) []any
}

// ScalePaths are the JSON paths of a scale subresource, without the leading dot.
type ScalePaths struct {
	SpecReplicas   []string
	StatusReplicas []string
	Selector       []string // where the label selector stands (a string, or a LabelSelector object); nil: none
}

// Type is the knowledge of one kind: a Go type of k8s.io/api for the built-in
// kinds, a structural schema for custom ones. Its methods are safe for concurrent
// use. Errors that a client may see are *kube.StatusError.
type Type interface {
	// Decode reads a JSON body into a tree: it checks kind, apiVersion and types, drops
	// unknown fields, and returns the warnings of fieldValidation=Warn.
	// With FieldsStrict it refuses unknown and duplicate fields (400).
	Decode(body []byte, v FieldValidation) (*unstructured.Unstructured, []string, error)
	// Default fills in defaults, in place.
	Default(u *unstructured.Unstructured)
	// Validate checks a whole object; old is nil for a creation. metadata is
	// checked by the caller, except for the rules of the kind's own name.
	Validate(u, old *unstructured.Unstructured) field.ErrorList
	// DecodeProtobuf turns the body of a protobuf request (the k8s\0 envelope) into
	// JSON; custom resources answer *kube.StatusError with 415.
	DecodeProtobuf(body []byte) ([]byte, error)
	// StrategicMerge applies a strategic merge patch to original (both JSON);
	// custom resources answer *kube.StatusError with 415.
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
// It is the store's name of the resource, and what its revisions are kept by.
func (r *Resource) GR() GroupResource { return GroupResource{Group: r.Group, Resource: r.Plural} }

// APIVersion returns "v1" or "group/version".
func (r *Resource) APIVersion() string { return r.GVK().GroupVersion().String() }

// NamespaceScoped returns Namespaced; a method for interfaces.
func (r *Resource) NamespaceScoped() bool { return r.Namespaced }
