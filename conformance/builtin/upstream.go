package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/capabilities"
)

// StoredVersion is the resourceVersion of every object that is updated. No other field
// has this value.
const StoredVersion = "7000001"

// Upstream writes objects as kube-apiserver does between its decoder and its store. It
// runs no admission plugins, allocates nothing, and stores nothing.
type Upstream struct{ kinds map[string]kindOfUpstream }

// NewUpstream returns the kinds of the imported version of Kubernetes. Privileged
// containers are allowed, as in most clusters (--allow-privileged).
func NewUpstream() Upstream {
	capabilities.Setup(true, 0)
	return Upstream{kinds: kindsOfUpstream()}
}

// Has reports whether there are strategies for a target: for its resource, and for its
// subresource.
func (u Upstream) Has(t Target) bool {
	kind, has := u.kinds[t.Resource.GR().String()]
	return has && (t.Subresource == "" || kind.parts[t.Subresource] != nil)
}

// Create returns what becomes of the body of a POST.
func (u Upstream) Create(ctx context.Context, t Target, body []byte) (v Verdict) {
	defer recovered(&v, "upstream panics")
	said := &recorder{}
	ctx = warning.WithWarningRecorder(ctx, said)
	defer func() { v.Warnings = said.texts }()
	kind := u.kinds[t.Resource.GR().String()]
	object, about, err := kind.decode(t, body)
	if err != nil {
		return verdictOf(err)
	}
	dedupOwners(object, ctx, false)
	rest.WipeObjectMetaSystemFields(about)
	rest.FillObjectMetaSystemFields(about)
	about.SetManagedFields(nil)
	about.SetUID(FixedUID)
	if about.GetName() == "" && about.GetGenerateName() != "" {
		about.SetName(kind.whole.GenerateName(about.GetGenerateName()))
	}
	if service, is := object.(*core.Service); is && service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		// What the allocator of addresses does before the strategy; the rest is not done.
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
	if err := rest.BeforeCreate(kind.whole, requestOf(ctx, t, "create"), object); err != nil {
		return verdictOf(err)
	}
	return kind.store(t, object)
}

// Update returns what becomes of the body of a PUT to the object, or to the part of it,
// that is stored as was says.
func (u Upstream) Update(ctx context.Context, t Target, was Verdict, body []byte) (v Verdict) {
	defer recovered(&v, "upstream panics")
	said := &recorder{}
	ctx = warning.WithWarningRecorder(ctx, said)
	defer func() { v.Warnings = said.texts }()
	kind := u.kinds[t.Resource.GR().String()]
	old := was.internal.DeepCopyObject()
	aboutOld, err := meta.Accessor(old)
	if err != nil {
		return failed("metadata of the stored %s: %w", t.Resource.Kind, err)
	}
	object, about, err := kind.decode(t, current(was, body))
	if err != nil {
		return verdictOf(err)
	}
	dedupOwners(object, ctx, false)
	var strategy rest.RESTUpdateStrategy = kind.whole
	if t.Subresource != "" {
		strategy = kind.parts[t.Subresource]
	}
	aboutOld.SetResourceVersion(StoredVersion)
	about.SetResourceVersion(StoredVersion)
	about.SetManagedFields(nil)
	if service, is := object.(*core.Service); is && t.Subresource == "" {
		if err := beginUpdate(service, old.(*core.Service)); err != nil {
			return verdictOf(err)
		}
	}
	if err := rest.BeforeUpdate(strategy, requestOf(ctx, t, "update"), object, old); err != nil {
		return verdictOf(err)
	}
	return kind.store(t, object)
}

// Decode returns a body with its defaults, which nothing has validated.
func (u Upstream) Decode(t Target, body []byte) Verdict {
	kind := u.kinds[t.Resource.GR().String()]
	object, _, err := kind.decode(t, body)
	if err != nil {
		return verdictOf(err)
	}
	return kind.shown(t, object)
}

// Strictly returns why a body is not exactly of its kind: it has unknown or repeated
// fields.
func (u Upstream) Strictly(t Target, body []byte) error {
	kind := u.kinds[t.Resource.GR().String()]
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, kind.scheme, kind.scheme,
		json.SerializerOptions{Strict: true})
	gvk := t.Resource.GVK()
	_, _, err := strict.Decode(body, &gvk, nil)
	return err
}

// decode reads a body into the internal form of its kind, with defaults.
func (k kindOfUpstream) decode(t Target, body []byte) (runtime.Object, metav1.Object, error) {
	r := t.Resource
	gvk := r.GVK()
	internal := schema.GroupVersion{Group: r.Group, Version: runtime.APIVersionInternal}
	object, _, err := k.codecs.DecoderToVersion(k.serializer(), internal).Decode(body, &gvk, nil)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, fmt.Errorf("metadata of %s: %w", r.Kind, err)
	}
	return object, about, nil
}

// store is the verdict of an object that is stored and read back: reading it fills in
// defaults of what the strategy has left empty.
func (k kindOfUpstream) store(t Target, object runtime.Object) Verdict {
	stored, err := k.encode(t, object)
	if err != nil {
		return Verdict{Err: err}
	}
	read, _, err := k.decode(t, stored)
	if err != nil {
		return failed("read the stored %s: %w", t.Resource.Kind, err)
	}
	return k.shown(t, read)
}

// shown is the verdict of an object as clients see it.
func (k kindOfUpstream) shown(t Target, object runtime.Object) Verdict {
	body, err := k.encode(t, object)
	if err != nil {
		return Verdict{Err: err}
	}
	v := accepted(body, FixedUID)
	v.internal = object
	return v
}

// encode returns an object in JSON.
func (k kindOfUpstream) encode(t Target, object runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	gv := t.Resource.GVK().GroupVersion()
	if err := k.codecs.EncoderForVersion(k.serializer(), gv).Encode(object, &out); err != nil {
		return nil, fmt.Errorf("encode the %s: %w", t.Resource.Kind, err)
	}
	return out.Bytes(), nil
}

func (k kindOfUpstream) serializer() *json.Serializer {
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, k.scheme, k.scheme, json.SerializerOptions{})
}

// requestOf returns a context with what strategies read of a request.
func requestOf(ctx context.Context, t Target, verb string) context.Context {
	r := t.Resource
	if t.Caller != nil {
		ctx = request.WithUser(ctx, t.Caller)
	}
	return request.WithRequestInfo(request.WithNamespace(ctx, t.Namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Plural,
		Subresource: t.Subresource, Namespace: t.Namespace, Name: t.Name,
	})
}

// verdictOf is the verdict of an error of upstream's.
func verdictOf(err error) Verdict {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return refused(status.Status())
	}
	return Verdict{Err: err}
}
