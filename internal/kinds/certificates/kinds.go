package builtin

import (
	"reflect"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/parts"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/cluster"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
	"github.com/gapless-io/gapless/internal/wire"
)

// clusterKinds are what the machinery of a cluster works with: signers, drivers of
// volumes, container runtimes. Nothing acts on them here.
func clusterKinds() []*kinds.Resource {
	const volumes, certificates = "storage.k8s.io", "certificates.k8s.io"
	return []*kinds.Resource{
		kind(row{
			group: certificates, version: "v1", kind: "CertificateSigningRequest", short: []string{"csr"},
			cluster: true, status: true, name: kinds.SegmentName, keeps: []string{"spec"}, signed: parts.Sign,
			fields: []wire.FieldPath{at("spec.signerName")}, subresources: parts.OfSigningRequests(),
		}, rules[*certificatesv1.CertificateSigningRequest]{object: validation.CertificateSigningRequest}),
		kind(row{
			group: certificates, version: "v1", kind: "ClusterTrustBundle", cluster: true, needsVersion: true,
			// It begins with that of the signer, which the rule for the object checks.
			name: func(string) []string { return nil }, fields: []wire.FieldPath{at("spec.signerName")},
		}, rules[*certificatesv1.ClusterTrustBundle]{create: cluster.NewTrustBundle, update: cluster.TrustBundleUpdate}),
		kind(row{
			group: certificates, version: "v1", kind: "PodCertificateRequest", status: true, needsVersion: true, noNamespaceField: true,
			defaults: defaults.PodRequest,
			fields:   []wire.FieldPath{at("spec.nodeName"), at("spec.podName"), at("spec.signerName")},
		}, rules[*certificatesv1.PodCertificateRequest]{create: cluster.NewPodCertificateRequest, update: cluster.PodCertificateRequestUpdate}),
		kind(row{
			group: volumes, version: "v1", kind: "CSIDriver", cluster: true, needsVersion: true, returnDeleted: true,
			defaults: defaults.Driver,
		}, rules[*storagev1.CSIDriver]{object: validation.CSIDriver, update: validation.CSIDriverUpdate, warn: warnings.CSIDriver}),
		kind(row{
			group: volumes, version: "v1", kind: "CSINode", cluster: true, status: true, needsVersion: true, returnDeleted: true,
		}, rules[*storagev1.CSINode]{object: validation.CSINode, update: validation.CSINodeUpdate}),
		kind(row{
			group: volumes, version: "v1", kind: "CSIStorageCapacity", plural: "csistoragecapacities", needsVersion: true,
		}, rules[*storagev1.CSIStorageCapacity]{
			object: cluster.CSIStorageCapacity, update: cluster.CSIStorageCapacityUpdate, warn: warnings.CSIStorageCapacity,
		}),
		kind(row{
			group: "storagemigration.k8s.io", version: "v1", kind: "StorageVersionMigration", cluster: true, status: true, needsVersion: true,
		}, rules[*migrationv1.StorageVersionMigration]{object: cluster.StorageVersionMigration, update: cluster.StorageVersionMigrationUpdate}),
		kind(row{
			group: volumes, version: "v1", kind: "VolumeAttachment", cluster: true, status: true, needsVersion: true,
			returnDeleted: true, defaults: defaults.Attachment,
		}, rules[*storagev1.VolumeAttachment]{object: validation.VolumeAttachment, update: validation.VolumeAttachmentUpdate}),
		kind(row{
			group: "node.k8s.io", version: "v1", kind: "RuntimeClass", plural: "runtimeclasses", cluster: true,
			needsVersion: true,
		}, rules[*nodev1.RuntimeClass]{object: validation.RuntimeClass, update: validation.RuntimeClassUpdate, warn: warnings.RuntimeClass}),
	}
}

// questions are the kinds that are created to be answered at once, and not stored:
// reviews of what a user may do, and bindings of pods to nodes.
func questions(stored []*kinds.Resource) []*kinds.Resource {
	const authorization = "authorization.k8s.io"
	pods := stored[slices.IndexFunc(stored, func(r *kinds.Resource) bool { return r.GR().String() == "pods" })]
	binding := kind(row{version: "v1", kind: "Binding", question: true}, rules[*corev1.Binding]{})
	binding.Through = &kinds.Through{Resource: pods, Subresource: "binding"}
	return []*kinds.Resource{
		binding,
		kind(row{
			group: "authentication.k8s.io", version: "v1", kind: "SelfSubjectReview", cluster: true, question: true,
		}, rules[*authenticationv1.SelfSubjectReview]{}),
		kind(row{
			group: "authentication.k8s.io", version: "v1", kind: "TokenReview", cluster: true, question: true,
		}, rules[*authenticationv1.TokenReview]{}),
		kind(row{
			group: authorization, version: "v1", kind: "LocalSubjectAccessReview", question: true,
		}, rules[*authorizationv1.LocalSubjectAccessReview]{}),
		kind(row{
			group: authorization, version: "v1", kind: "SelfSubjectAccessReview", cluster: true, question: true,
		}, rules[*authorizationv1.SelfSubjectAccessReview]{}),
		kind(row{
			group: authorization, version: "v1", kind: "SelfSubjectRulesReview", cluster: true, question: true,
		}, rules[*authorizationv1.SelfSubjectRulesReview]{}),
		kind(row{
			group: authorization, version: "v1", kind: "SubjectAccessReview", cluster: true, question: true,
		}, rules[*authorizationv1.SubjectAccessReview]{}),
	}
}

// ofPods are the subresources of pods that are served without anything that runs
// them.
func ofPods() []kinds.Subresource {
	return []kinds.Subresource{
		{
			Name: "binding", Verbs: []string{"create"}, Apply: parts.Bind, SameGeneration: true,
			Kind: kinds.GroupVersionKind{Version: "v1", Kind: "Binding"},
			Body: bodyOf[corev1.Binding]("", "Binding"), GoType: reflect.TypeFor[corev1.Binding](),
		},
		{
			Name: "ephemeralcontainers", Verbs: []string{"get", "patch", "update"},
			Kind:  kinds.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Apply: parts.TakeEphemeralContainers, Check: parts.CheckEphemeralContainers,
		},
		{
			Name: "eviction", Verbs: []string{"create"},
			Kind: kinds.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
			// policy/v1beta1 is what clients older than 1.22 send, kubectl drain among them
			// (upstream's EvictionREST.AcceptsGroupVersion).
			Body: bodyOf[policyv1.Eviction]("policy", "Eviction", "v1beta1"), GoType: reflect.TypeFor[policyv1.Eviction](),
		},
	}
}

// ofServiceAccounts are the subresources of service accounts.
func ofServiceAccounts() []kinds.Subresource {
	request := kind(row{
		group: "authentication.k8s.io", version: "v1", kind: "TokenRequest", question: true,
	}, rules[*authenticationv1.TokenRequest]{})
	return []kinds.Subresource{{
		Name: "token", Verbs: []string{"create"}, Kind: request.GVK(),
		Body: request.Type, GoType: request.GoType, Question: request,
	}}
}

// bodyOf decodes the bodies of a subresource that are of a kind of their own, in version
// v1 or another that has the same fields.
func bodyOf[T any, P object[T]](group, kind string, others ...string) kinds.Type {
	t := newType[T, P](kinds.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	t.validName = kinds.SubdomainName
	for _, version := range others {
		t.also = append(t.also, runtimeschema.GroupVersion{Group: group, Version: version})
	}
	return t
}
