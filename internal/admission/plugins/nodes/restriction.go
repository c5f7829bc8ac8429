package nodes

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// Restriction is what NodeRestriction works with.
type Restriction struct {
	Cluster    plugins.Cluster
	Authorizer auth.Authorizer
	// MayWait reports whether the authorizer may ask others, and wait for them; nil: it does not.
	MayWait func() bool
}

// The resources of which kubelets write objects.
//
//nolint:gochecknoglobals // constants
var (
	pods         = kinds.GroupResource{Resource: "pods"}
	nodes        = kinds.GroupResource{Resource: "nodes"}
	claims       = kinds.GroupResource{Resource: "persistentvolumeclaims"}
	accounts     = kinds.GroupResource{Resource: "serviceaccounts"}
	leases       = kinds.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	drivers      = kinds.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	devices      = kinds.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	requests     = kinds.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	certificates = kinds.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}
)

// NodeRestriction is upstream's plugin of this name: a kubelet writes only its own Node, Lease and CSINode, and what
// concerns the pods on its node. Other users are none of its business.
func NodeRestriction(cfg Restriction) plugins.Plugin {
	all := []upstream.Operation{upstream.Create, upstream.Update, upstream.Delete}
	p := plugins.Plugin{Name: "NodeRestriction", Admit: cfg.admit}
	for gr, subresources := range map[kinds.GroupResource][]string{
		pods:   {"", "status", "eviction", "binding", "ephemeralcontainers", "resize"},
		nodes:  {"", "status"},
		claims: {"", "status"}, accounts: {"token"}, leases: {""}, drivers: {"", "status"}, devices: {""}, requests: {""},
		certificates: {"", "status"},
	} {
		for _, subresource := range subresources {
			c := plugins.Concern{Resource: gr, Subresource: subresource, Operations: all}
			if gr == accounts || gr == certificates { // for these it asks the authorizer
				c.Waits = cfg.MayWait
			}
			p.Concerns = append(p.Concerns, c)
		}
	}
	return p
}

func (cfg Restriction) admit(ctx context.Context, w *plugins.Write) error {
	node, is := auth.NodeOf(w.GetUserInfo())
	if !is {
		return nil
	}
	if node == "" {
		return refuse(w, "could not determine node from user %q", w.GetUserInfo().GetName())
	}
	k := kubelet{Restriction: cfg, node: node}
	switch w.GetResource().GroupResource() {
	case pods:
		return k.pod(w)
	case nodes:
		return k.own(w)
	case claims:
		return k.claim(w)
	case accounts:
		return k.token(ctx, w)
	case certificates:
		return k.certificate(ctx, w)
	case leases:
		return k.lease(w)
	case drivers:
		return k.driver(w)
	case devices:
		return k.devices(w)
	case requests:
		return k.request(w)
	}
	return nil
}

// kubelet is who writes.
type kubelet struct {
	Restriction

	node string
}

// refuse is 403 for a reason.
func refuse(w *plugins.Write, format string, values ...any) error {
	return upstream.NewForbidden(w, fmt.Errorf(format, values...))
}

// own looks at a write of a Node.
func (k kubelet) own(w *plugins.Write) error {
	if name := w.GetName(); name != k.node {
		return refuse(w, "node %q is not allowed to modify node %q", k.node, name)
	}
	var now, old corev1.Node
	switch w.GetOperation() {
	case upstream.Create:
		if err := plugins.As(w.Object, &now); err != nil {
			return err
		}
		if configOf(&now) != nil {
			return refuse(w, "node %q is not allowed to create pods with a non-nil configSource", k.node)
		}
		if names := forbidden(now.Labels, nil); len(names) > 0 {
			return refuse(w, "node %q is not allowed to set the following labels: %s", k.node, strings.Join(names, ", "))
		}
	case upstream.Update:
		if err := errors.Join(plugins.As(w.Object, &now), plugins.As(w.Old, &old)); err != nil {
			return err
		}
		if source := configOf(&now); source != nil && !equality.Semantic.DeepEqual(source, configOf(&old)) {
			return refuse(w, "node %q is not allowed to update configSource to a new non-nil configSource", k.node)
		}
		if !equality.Semantic.DeepEqual(now.Spec.Taints, old.Spec.Taints) {
			return refuse(w, "node %q is not allowed to modify taints", k.node)
		}
		if !equality.Semantic.DeepEqual(now.OwnerReferences, old.OwnerReferences) {
			return refuse(w, "node %q is not allowed to modify ownerReferences", k.node)
		}
		if names := forbidden(now.Labels, old.Labels); len(names) > 0 {
			return refuse(w, "is not allowed to modify labels: %s", strings.Join(names, ", "))
		}
	case upstream.Delete, upstream.Connect:
	}
	return nil
}

// configOf is where a Node says that its kubelet has its configuration from, which nothing reads any more.
func configOf(n *corev1.Node) *corev1.NodeConfigSource {
	return n.Spec.ConfigSource //nolint:staticcheck // upstream still refuses it
}

// forbidden returns the labels that differ and that a kubelet may not set, sorted.
func forbidden(now, old map[string]string) (names []string) {
	differ := map[string]struct{}{}
	for _, of := range []map[string]string{now, old} {
		for key := range of {
			is, has := now[key]
			was, had := old[key]
			if (is != was || has != had) && (restricted(key) || ofKubernetes(key) && !ofKubelets(key)) {
				differ[key] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

// within reports whether a label's prefix is a domain, or below it.
func within(key, domain string) bool {
	prefix, _, has := strings.Cut(key, "/")
	return has && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
}

func restricted(key string) bool { return within(key, corev1.LabelNamespaceNodeRestriction) }

func ofKubernetes(key string) bool { return within(key, "kubernetes.io") || within(key, "k8s.io") }

// ofKubelets reports whether kubelets may set a label on their Node (k8s.io/kubelet/pkg/apis IsKubeletLabel).
func ofKubelets(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return within(key, corev1.LabelNamespaceSuffixKubelet) || within(key, corev1.LabelNamespaceSuffixNode)
}

func (k kubelet) lease(w *plugins.Write) error {
	switch {
	case w.GetNamespace() != corev1.NamespaceNodeLease:
		return refuse(w, "can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case w.GetName() != k.node:
		return refuse(w, "can only access node lease with the same name as the requesting node")
	}
	return nil
}

func (k kubelet) driver(w *plugins.Write) error {
	switch {
	case w.GetName() != k.node:
		return refuse(w, "can only access CSINode with the same name as the requesting node")
	case w.GetSubresource() == "status":
		return refuse(w, "CSIVolumeHealth feature gate is disabled")
	}
	return nil
}

// devices looks at a ResourceSlice. The authorizer has looked at updates.
func (k kubelet) devices(w *plugins.Write) error {
	object, verb := w.Object, "create"
	switch w.GetOperation() {
	case upstream.Create:
	case upstream.Delete:
		object, verb = w.Old, "delete"
	case upstream.Update, upstream.Connect:
		return nil
	}
	spec, _ := object.Object["spec"].(map[string]any)
	if plugins.Text(spec, "nodeName") != k.node {
		return refuse(w, "can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// request looks at a CertificateSigningRequest for a kubelet's own certificates.
func (k kubelet) request(w *plugins.Write) error {
	if w.GetOperation() != upstream.Create {
		return nil
	}
	var csr certificatesv1.CertificateSigningRequest
	if err := plugins.As(w.Object, &csr); err != nil {
		return err
	}
	switch csr.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	parsed, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return refuse(w, "unable to parse csr: %w", err)
	}
	if want := "system:node:" + k.node; parsed.Subject.CommonName != want {
		return refuse(w, "can only create a node CSR with CN=%s", want)
	}
	return nil
}

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
