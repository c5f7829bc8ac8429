// Package builtin has the built-in kinds of the Kubernetes API: pods, deployments, roles
// and the others that controllers use.
//
// It has three nouns. The table ([Catalog]) lists the kinds with their names,
// verbs and selectable fields, as kube-apiserver's discovery has them. A type is
// what decodes, defaults, validates, and patches one kind, made from the Go
// struct of k8s.io/api. An envelope is the protobuf body of a request
// ([DecodeDeleteOptions] reads one too); answers are messages without it ([EncodeScale],
// [EncodeMetadata], and Protobuf of each resource).
//
// Defaults (package defaults) are functions on the decoded tree, rules (package
// validation) and warnings (package warnings) are functions on the Go struct. The suite in
// conformance/builtin compares all with upstream's. The rules are a selection. Not checked
// are, among others: kernel parameters and what is for Windows only in security contexts, the volume sources of
// single storage vendors, resource claims of pods, pod resize, the CEL expressions of device selectors; the cron syntax beyond its shape,
// success policies of jobs; which resources
// limit ranges and quotas may name; most of the status subresources. Nothing is allocated
// (cluster IPs, node ports), and there are no admission plugins.
package builtin

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/deprecation"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/printers"
	"github.com/gapless-io/gapless/internal/wire"
)

// Catalog returns a new catalog of the built-in kinds. It costs less than a
// millisecond; nothing is compiled before a kind's first use.
func Catalog() *kinds.Catalog {
	stored := slices.Concat(
		coreKinds(), storageKinds(), appsKinds(), batchKinds(), networkKinds(), policyKinds(), clusterKinds(), deviceKinds(), crdKinds(),
		admissionKinds(),
	)
	return kinds.NewCatalog(slices.Concat(stored, viewKinds(stored), questions(stored))...)
}

// object is a pointer to a Go struct of k8s.io/api.
type object[T any] interface {
	*T
	runtime.Object
	Unmarshal(data []byte) error
	Marshal() ([]byte, error)
}

// row is one line of the table of kinds. Its zero value is the usual case: a
// namespaced kind with all verbs, no subresource, and updates that need no
// resourceVersion.
type row struct {
	group, version, kind string
	plural               string // "": the kind in lower case with an s
	short                []string
	categories           []string
	cluster              bool
	status               bool
	statusOnCreate       bool
	scale                *kinds.ScalePaths
	noDeleteCollection   bool
	needsVersion         bool // an update must give a resourceVersion
	createOnUpdate       bool
	returnDeleted        bool
	grace                time.Duration
	question             bool     // it is asked and answered, and not stored: see questions
	keeps                []string // see kinds.Resource.KeptParts
	subresources         []kinds.Subresource
	signed               func(*unstructured.Unstructured, user.Info)
	name                 func(string) []string // nil: kinds.SubdomainName
	fields               []wire.FieldPath
	aliases              map[string]string // see kinds.Resource.FieldAliases
	noNamespaceField     bool              // see kinds.Resource.NoNamespaceField
	defaults             func(tree)        // nil: nothing to default
}

// rules are the validation rules of one kind. Each may be nil.
type rules[P any] struct {
	object func(obj P) field.ErrorList      // of every write
	create func(obj P) field.ErrorList      // of every creation, besides
	update func(obj, old P) field.ErrorList // of every update, besides
	status func(obj, old P) field.ErrorList // of every update of the status, instead of the others
	// warn and warnStatus return the warnings about a write of the object, and of its status,
	// that is accepted. old is nil for a creation.
	warn, warnStatus func(obj, old P) []string
}

// kind makes a resource of a row of the table.
func kind[T any, P object[T]](r row, check rules[P]) *kinds.Resource {
	verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if r.noDeleteCollection {
		verbs = slices.Delete(verbs, 2, 3)
	}
	stored := r.version
	if r.question {
		verbs, stored = []string{"create"}, ""
	}
	if r.name == nil {
		r.name = kinds.SubdomainName
	}
	singular := strings.ToLower(r.kind)
	if r.plural == "" {
		r.plural = singular + "s"
	}
	res := &kinds.Resource{
		Group: r.group, Version: r.version, StorageVersion: stored,
		Kind: r.kind, ListKind: r.kind + "List", Plural: r.plural, Singular: singular,
		ShortNames: r.short, Categories: r.categories, Namespaced: !r.cluster, Verbs: verbs,
		HasStatus: r.status, StatusOnCreate: r.statusOnCreate, Scale: r.scale,
		UnconditionalUpdate: !r.needsVersion, CreateOnUpdate: r.createOnUpdate,
		ReturnDeleted: r.returnDeleted, GracefulSeconds: int64(r.grace / time.Second),
		ValidName: r.name, Fields: r.fields, FieldAliases: r.aliases, NoNamespaceField: r.noNamespaceField,
		KeptParts: r.keeps, Subresources: r.subresources, Signed: r.signed,
		PatchTypes: []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType)},
		GoType:     reflect.TypeFor[T](),
	}
	res.Generation, res.StatusKeeps, res.Complete = generation(res.GR()), statusKeeps(res.GR()), complete(res.GR())
	res.OrphansByDefault, res.NoDependents, res.OrphanWarning = dependents(res.GR())
	res.Deprecation = deprecated[T, P](res.GVK())
	res.NameByUID = res.GR().String() == "limitranges"
	shown := printers.For(res.GR())
	res.Columns, res.Row, res.ListRow, res.RowConditions = shown.Columns, shown.Row, shown.ListRow, shown.Conditions
	typ := newType[T, P](res.GVK())
	typ.hasStatus, typ.validName, typ.defaults, typ.check = r.status, r.name, r.defaults, check
	res.Type, res.Protobuf = typ, typ.encodeProtobuf
	if r.status {
		res.CheckStatus = typ.validateStatus
	}
	return res
}

// deprecated returns the warning that every request for a deprecated kind gets; "" for the
// others. The Go struct knows it.
func deprecated[T any, P object[T]](gvk kinds.GroupVersionKind) string {
	obj := P(new(T))
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return deprecation.WarningMessage(obj)
}

// at is a selectable field whose label is its path.
func at(label string) wire.FieldPath {
	return wire.FieldPath{Label: label, Path: strings.Split(label, ".")}
}

// or is at with a value for objects that have no such field.
func or(label, value string) wire.FieldPath {
	f := at(label)
	f.Default = value
	return f
}
