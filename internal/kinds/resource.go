package kinds

import (
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
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
	// CheckStatus replaces Type.Validate in updates of the status; nil: nothing does.
	CheckStatus func(u, old *unstructured.Unstructured) (field.ErrorList, []string)
	// Subresources are those besides status and scale.
	Subresources []Subresource
	// StorageVersion is the version in which objects are stored; another served
	// version differs in apiVersion only (conversion strategy None), unless it has a
	// Conversion or Converts. It is "" for a resource that stores nothing, such as a review.
	StorageVersion string
	// Conversion is set for a view of another resource's objects.
	Conversion *Conversion
	// Webhook converts the objects of a custom resource between its versions; nil: the
	// strategy is None.
	Webhook *Webhook
	// Coerce brings content that was converted to this version into the form of its schema.
	// It is set for custom resources with a webhook, or whose versions have different schemas.
	Coerce func(u *unstructured.Unstructured) error
	// Readings make the read forms of stored objects. They are set for custom resources, the same
	// ones for all versions.
	Readings Readings
	// Schemas identifies the schemas of all versions of a custom resource among those that its
	// definition has had: what equal ones make of a stored object is equal.
	Schemas string
	// Moved says that objects may be stored in other versions than StorageVersion.
	Moved bool
	// Unserved is set for a version that is not served. Only Catalog.All finds it, and
	// Catalog.Storage if it is the storage version.
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
	// KeptParts are the members that an update of the object itself leaves as they
	// are ("spec"); with HasStatus so is the status.
	KeptParts []string
	// StatusKeeps are the members of metadata that a write of the status does not
	// change. For custom resources that is all of metadata, for the others all that is
	// not named here can be changed.
	StatusKeeps []string
	// Generation says what metadata.generation counts.
	Generation Generation
	// Complete fills in, after the defaults, what depends on the stored object, which is nil
	// for a creation; it is nil for kinds that have nothing of the kind. Its error says
	// what is wrong in the body.
	Complete func(u, old map[string]any) error
	// Signed writes the caller into a new object, for kinds that record it; nil for others.
	Signed func(u *unstructured.Unstructured, by user.Info)
	// Through makes creating an object a POST to a subresource of another resource's
	// object of the same name; nothing is stored by itself.
	Through *Through
	// GracefulSeconds is the default deletion grace period when the object does not
	// say (pods: spec.terminationGracePeriodSeconds); 0: deleted at once.
	GracefulSeconds int64
	// OrphansByDefault says that a deletion without a propagation policy leaves the
	// dependents; NoDependents says that the policies have no effect on the kind (apiserver
	// rest.GarbageCollectionPolicy). OrphanWarning is the warning about the first.
	OrphansByDefault bool
	NoDependents     bool
	OrphanWarning    string
	// NameByUID gives an object that is created without a name a random UID for one.
	NameByUID bool
	// ValidName returns the problems of a name of an object of this kind, nil for a valid
	// one; Type.Validate applies it to every creation.
	ValidName func(name string) []string
	// PatchTypes are the accepted content types of PATCH, in the order of the 415 text.
	PatchTypes []string
	// Fields are the selectable fields besides metadata.name and metadata.namespace.
	Fields []wire.FieldPath
	// FieldAliases are further labels of field selectors: old ones, with the label of Fields
	// that they mean, and those that select by nothing, since no object has a value ("").
	FieldAliases map[string]string
	// NoNamespaceField says that objects, though they have one, cannot be selected by
	// metadata.namespace.
	NoNamespaceField bool
	// Columns are the columns of a Table, without the object.
	Columns []metav1.TableColumnDefinition
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
	// Row computes the cells of one object in the order of Columns: text, numbers, booleans,
	// nil, and Ago for ages.
	Row func(o *wire.Object) []any
	// Rows identifies Row among those that this group, version and resource has had: what
	// equal ones compute of an object is equal. It is "" for a built-in kind.
	Rows string
	// ListRow returns the Row of the items of a list, for a kind whose rows depend on the
	// other rows. It ranges over items before the rows are computed; nil: it is Row.
	ListRow func(items iter.Seq2[*wire.Object, error]) func(o *wire.Object) []any
	// RowConditions returns what a row says besides its cells; nil: nothing.
	RowConditions func(o *wire.Object) []metav1.TableRowCondition
}

// Through is a subresource of a resource.
type Through struct {
	Resource    *Resource
	Subresource string
}

// ScalePaths are the JSON paths of a scale subresource, without the leading dot.
type ScalePaths struct {
	SpecReplicas   []string
	StatusReplicas []string
	Selector       []string // where the label selector stands (a string, or a LabelSelector object); nil: none
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
