package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// token looks at a TokenRequest: a kubelet gets tokens of its pods' accounts, bound to the pods.
func (k kubelet) token(ctx context.Context, w *plugins.Write) error {
	if w.GetOperation() != upstream.Create {
		return nil
	}
	var request authenticationv1.TokenRequest
	if err := plugins.As(w.Object, &request); err != nil {
		return err
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return refuse(w, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return refuse(w, "node requested token with a pod binding without a uid")
	}
	of, err := k.podOf(w.GetNamespace(), ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != of.UID {
		return refuse(w, "the UID in the bound object reference (%s) does not match the UID in record. "+
			"The object might have been deleted and then recreated", ref.UID)
	}
	if of.Spec.NodeName != k.node {
		return refuse(w, "node requested token bound to a pod scheduled on a different node")
	}
	if err := k.audience(ctx, w, of, request.Spec.Audiences); err != nil {
		return upstream.NewForbidden(w, err)
	}
	return nil
}

// audience checks that a pod needs a token for an audience, or that the kubelet may request it.
func (k kubelet) audience(ctx context.Context, w *plugins.Write, of *corev1.Pod, audiences []string) error {
	wanted := ""
	switch len(audiences) {
	case 0:
	case 1:
		wanted = audiences[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	needed, err := k.needsAudience(of, wanted)
	if err != nil {
		return fmt.Errorf("error validating audience %q: %w", wanted, err)
	}
	if needed || k.may(ctx, w, "request-serviceaccounts-token-audience", wanted, w.GetName()) {
		return nil
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", w.GetUserInfo().GetName(), wanted)
}

// may asks for a verb on what upstream takes for the name of a resource.
func (k kubelet) may(ctx context.Context, w *plugins.Write, verb, resource, name string) bool {
	return k.Authorizer.Decide(ctx, w.GetUserInfo(), auth.Attributes{
		Verb: verb, Resource: kinds.GroupResource{Group: w.GetResource().Group, Resource: resource},
		Version: w.GetResource().Version, Namespace: w.GetNamespace(), Name: name,
	}).Allowed
}

// needsAudience reports whether a volume of a pod needs tokens for an audience: it is projected, or its CSI driver wants them.
func (k kubelet) needsAudience(of *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range of.Spec.Volumes {
		v := &of.Spec.Volumes[i]
		if v.Projected != nil {
			for j := range v.Projected.Sources {
				if token := v.Projected.Sources[j].ServiceAccountToken; token != nil && token.Audience == audience {
					return true, nil
				}
			}
		}
		driver, err := k.driverOf(of, v)
		if err == nil && driver != "" {
			var wants bool
			if wants, err = k.driverWants(driver, audience); wants {
				return true, nil
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

// driverOf returns the CSI driver of a volume, "" if it has none.
func (k kubelet) driverOf(of *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return k.driverOfClaim(wire.Key{Namespace: of.Namespace, Name: of.Name + "-" + v.Name})
	case v.PersistentVolumeClaim != nil:
		return k.driverOfClaim(wire.Key{Namespace: of.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
	case v.CSI != nil:
		return v.CSI.Driver, nil
	}
	return migrated(v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.Cinder != nil, v.AzureDisk != nil,
		v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil), nil
}

func (k kubelet) driverOfClaim(key wire.Key) (string, error) {
	claim, err := stored[corev1.PersistentVolumeClaim](k.Cluster, claims, "persistentvolumeclaim", key)
	if err != nil {
		return "", err
	}
	volume, err := stored[corev1.PersistentVolume](k.Cluster, kinds.GroupResource{Resource: "persistentvolumes"},
		"persistentvolume",
		wire.Key{Name: claim.Spec.VolumeName})
	if err != nil {
		return "", err
	}
	v := &volume.Spec.PersistentVolumeSource
	if v.CSI != nil {
		return v.CSI.Driver, nil
	}
	return migrated(v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.Cinder != nil, v.AzureDisk != nil,
		v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil), nil
}

// migrated returns the CSI driver that has taken the place of a volume plugin (k8s.io/csi-translation-lib).
func migrated(is ...bool) string {
	for i, driver := range []string{
		"ebs.csi.aws.com", "pd.csi.storage.gke.io", "cinder.csi.openstack.org", "disk.csi.azure.com", "file.csi.azure.com",
		"csi.vsphere.vmware.com", "pxd.portworx.com",
	} {
		if is[i] {
			return driver
		}
	}
	return ""
}

func (k kubelet) driverWants(name, audience string) (bool, error) {
	driver, err := stored[storagev1.CSIDriver](k.Cluster, kinds.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"},
		"csidriver", wire.Key{Name: name})
	if err != nil {
		return false, err
	}
	for _, request := range driver.Spec.TokenRequests {
		if request.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}

// certificate looks at a PodCertificateRequest, which a kubelet makes for a pod.
func (k kubelet) certificate(ctx context.Context, w *plugins.Write) error {
	if w.GetOperation() != upstream.Create {
		return refuse(w, "unexpected operation %v", w.GetOperation())
	}
	if w.GetSubresource() != "" {
		return refuse(w, "unexpected subresource %v", w.GetSubresource())
	}
	var request certificatesv1.PodCertificateRequest
	if err := plugins.As(w.Object, &request); err != nil {
		return err
	}
	spec, of := &request.Spec, w.GetNamespace()+"/"+request.Spec.PodName
	if name := string(spec.NodeName); name != k.node {
		return refuse(w, "PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", name, k.node)
	}
	node, err := stored[corev1.Node](k.Cluster, nodes, "node", wire.Key{Name: k.node})
	if err != nil {
		return retrieving(w, fmt.Sprintf("node %q", k.node), err)
	}
	if node.UID != spec.NodeUID {
		return wire.Unknown(
			fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)",
				of, spec.NodeUID, node.UID))
	}
	pod, err := k.podOf(w.GetNamespace(), spec.PodName)
	if err != nil {
		return retrieving(w, fmt.Sprintf("pod %q", of), err)
	}
	if pod.UID != spec.PodUID {
		return wire.Unknown(fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q",
			of, spec.PodUID, pod.UID))
	}
	if pod.Spec.NodeName != k.node {
		return refuse(w, "pod %q is not running on node %q named in the PodCertificateRequest", of, k.node)
	}
	if _, is := pod.Annotations[corev1.MirrorPodAnnotationKey]; is {
		return refuse(w, "pod %q is a mirror pod", of)
	}
	return k.certificateOf(ctx, w, spec, pod)
}

// certificateOf looks at the account and the signer of a PodCertificateRequest.
func (k kubelet) certificateOf(
	ctx context.Context, w *plugins.Write, spec *certificatesv1.PodCertificateRequestSpec, pod *corev1.Pod,
) error {
	of, account := w.GetNamespace()+"/"+spec.PodName, w.GetNamespace()+"/"+spec.ServiceAccountName
	if spec.ServiceAccountName != pod.Spec.ServiceAccountName {
		return refuse(w, "PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			of, spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	stored, err := stored[corev1.ServiceAccount](k.Cluster, accounts, "serviceaccount",
		wire.Key{Namespace: w.GetNamespace(), Name: spec.ServiceAccountName})
	if err != nil {
		return retrieving(w, fmt.Sprintf("service account %q", account), err)
	}
	if stored.UID != spec.ServiceAccountUID {
		return wire.Unknown(
			fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service "+
				"account (%q)", of, spec.ServiceAccountUID, stored.UID))
	}
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for j := range projected.Sources {
				if c := projected.Sources[j].PodCertificate; c != nil && c.SignerName == spec.SignerName {
					return nil
				}
			}
		}
	}
	if k.may(ctx, w, "request-serviceaccounts-podcertificate-signer", strings.ReplaceAll(spec.SignerName, "/", ":"),
		spec.ServiceAccountName) {
		return nil
	}
	return refuse(w, "pod %q does not mount a podCertificate projected volume for signer %q", of, spec.SignerName)
}

// retrieving is the error of what a PodCertificateRequest names: what does not exist may be seen later.
func retrieving(w *plugins.Write, what string, err error) error {
	err = fmt.Errorf("while retrieving %s named in the PodCertificateRequest: %w", what, err)
	if wire.StatusOf(err).Code == http.StatusNotFound {
		return wire.Unknown(errors.New(err.Error())) // as upstream: no 404
	}
	return upstream.NewForbidden(w, err)
}
