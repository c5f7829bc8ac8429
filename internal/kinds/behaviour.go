package kinds

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// Writes is what creations and updates of a kind's objects do, besides what its Type does
// (upstream's strategies).
type Writes struct {
	// PatchTypes are the accepted content types of PATCH, in the order of the 415 text.
	PatchTypes []string
	// UnconditionalUpdate allows PUT without resourceVersion; CreateOnUpdate
	// makes PUT of a missing object create it.
	UnconditionalUpdate bool
	CreateOnUpdate      bool
	// Through makes creating an object a POST to a subresource of another resource's
	// object of the same name; nothing is stored by itself.
	Through *Through
	// NameByUID gives an object that is created without a name a random UID for one.
	NameByUID bool
	// ValidName returns the problems of a name of an object of this kind, nil for a valid
	// one; Type.Validate applies it to every creation.
	ValidName func(name string) []string
	// Signed writes the caller into a new object, for kinds that record it; nil for others.
	Signed func(u *unstructured.Unstructured, by user.Info)
	// Complete fills in, after the defaults, what depends on the stored object, which is nil
	// for a creation; it is nil for kinds that have nothing of the kind. Its error says
	// what is wrong in the body.
	Complete func(u, old map[string]any) error
	// Generation says what metadata.generation counts.
	Generation Generation
	// KeptParts are the members that an update of the object itself leaves as they
	// are ("spec"); with HasStatus so is the status.
	KeptParts []string
	// KeptPartsManaged says that who sends them manages them nevertheless, and that plugins see them as they were
	// sent: upstream keeps them only afterwards (namespaces).
	KeptPartsManaged bool
	// Finalizers says which names finalizers may have.
	Finalizers Finalizers
	// WarnsOfInvalid says that warnings reach the client also beside the errors of an object that
	// is refused.
	WarnsOfInvalid bool

	// StatusOnCreate keeps the status of a created object's body, although there
	// is a status subresource (nodes).
	StatusOnCreate bool
	// StatusByDefault says that the defaults of an object include its first status, which others do
	// not store before it is written.
	StatusByDefault bool
	// StatusKeeps are the members of metadata that a write of the status does not
	// change. StatusAlone says that these are all: such a write changes the status alone.
	StatusKeeps []string
	StatusAlone bool
	// CheckStatus replaces Type.Validate in updates of the status; nil: nothing does.
	CheckStatus func(u, old *unstructured.Unstructured) (field.ErrorList, []string)
}

// Through is a subresource of a resource.
type Through struct {
	Resource    *Resource
	Subresource string
}

// Finalizers says which names the finalizers of a kind's objects may have: upstream validates
// metadata by several functions.
type Finalizers int

// The rules for finalizers without a domain that are not standard ones.
const (
	AnyFinalizers     Finalizers = iota // they are valid
	DomainFinalizers                    // they are refused (core validation.ValidateObjectMeta)
	AdvisedFinalizers                   // they are warned about (apiextensions registry/customresource)
)

// Deletes is what a deletion of an object means.
type Deletes struct {
	// ReturnDeleted makes DELETE answer with the object instead of a Status.
	ReturnDeleted bool
	// GracefulSeconds is the default deletion grace period when the object does not
	// say (pods: spec.terminationGracePeriodSeconds); 0: deleted at once.
	GracefulSeconds int64
	// OrphansByDefault says that a deletion without a propagation policy leaves the
	// dependents; NoDependents says that the policies have no effect on the kind (apiserver
	// rest.GarbageCollectionPolicy). OrphanWarning is the warning about the first.
	OrphansByDefault bool
	NoDependents     bool
	OrphanWarning    string
}

// Selectable is what field selectors may name.
type Selectable struct {
	// Fields are the selectable fields besides metadata.name and metadata.namespace.
	Fields []wire.FieldPath
	// FieldAliases are further labels of field selectors: old ones, with the label of Fields
	// that they mean, and those that select by nothing, since no object has a value ("").
	FieldAliases map[string]string
	// NoNamespaceField says that objects, though they have one, cannot be selected by
	// metadata.namespace.
	NoNamespaceField bool
}

// Defined is what a definition says of the stored objects of a custom resource; it is empty for
// built-in kinds.
type Defined struct {
	// Webhook converts the objects between the versions; nil: the strategy is None.
	Webhook *Webhook
	// Coerce brings content that was converted to this version into the form of its schema.
	// It is set for resources with a webhook, or whose versions have different schemas.
	Coerce func(u *unstructured.Unstructured) error
	// Readings make the read forms of stored objects, the same ones for all versions.
	Readings Readings
	// Schemas identifies the schemas of all versions among those that the definition has had:
	// what equal ones make of a stored object is equal.
	Schemas string
	// Moved says that objects may be stored in other versions than StorageVersion.
	Moved bool
}
