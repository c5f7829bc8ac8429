package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// answer is what a webhook has said.
type answer struct {
	annotations map[string]string
	allowed     bool
	patch       []byte
	patchType   admissionv1.PatchType
	result      *metav1.Status
	warnings    []string
}

// reviewVersion returns the first version of AdmissionReview that is known.
func reviewVersion(accepted []string) (string, error) {
	for _, v := range accepted {
		if v == "v1" || v == "v1beta1" {
			return v, nil
		}
	}
	return "", errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// requestBody returns the body of a review. Both versions have the same members.
func requestBody(version string, uid types.UID, c *call) ([]byte, error) {
	v := c.view
	a := v.Attributes
	caller := authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{}}
	if by := a.GetUserInfo(); by != nil {
		caller.Username, caller.UID, caller.Groups = by.GetName(), by.GetUID(), by.GetGroups()
		for key, values := range by.GetExtra() {
			caller.Extra[key] = values
		}
	}
	object, err := encoded(v.VersionedObject.Object())
	if err != nil {
		return nil, err
	}
	oldObject, err := encoded(v.VersionedOldObject.Object())
	if err != nil {
		return nil, err
	}
	options := runtime.RawExtension{}
	if given := a.GetOperationOptions(); given != nil {
		if options.Raw, err = json.Marshal(given); err != nil {
			return nil, err
		}
	}
	dryRun := a.IsDryRun()
	requestKind, requestResource := metav1.GroupVersionKind(a.GetKind()), metav1.GroupVersionResource(a.GetResource())
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.GroupName + "/" + version, Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uid, Kind: metav1.GroupVersionKind(v.VersionedKind), Resource: metav1.GroupVersionResource(c.by.Resource),
			SubResource: a.GetSubresource(), RequestKind: &requestKind, RequestResource: &requestResource,
			RequestSubResource: a.GetSubresource(), Name: a.GetName(), Namespace: a.GetNamespace(),
			Operation: admissionv1.Operation(a.GetOperation()), UserInfo: caller,
			Object: object, OldObject: oldObject, DryRun: &dryRun, Options: options,
		},
	})
}

// encoded returns an object as JSON; null if there is none.
func encoded(o runtime.Object) (runtime.RawExtension, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return runtime.RawExtension{}, nil
	}
	raw, err := json.Marshal(u.Object)
	return runtime.RawExtension{Raw: raw}, err
}

// decoder returns the decoder of answers: that of upstream's client manager, for its texts.
func decoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionv1beta1.AddToScheme(scheme))
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion)
}

// unreadable is an answer that is no review at all. Upstream counts it as a failed call.
type unreadable struct{ error }

// review is what must be known of a review to read its answer.
type review struct {
	version string
	uid     types.UID
	mutates bool // of a mutating webhook
}

// readAnswer returns what a webhook has said; the errors have upstream's texts (rest.Result.Into,
// request.VerifyAdmissionResponse). A version v1beta1 is checked less.
func readAnswer(d runtime.Decoder, body []byte, asked review) (*answer, error) {
	if len(body) == 0 {
		return nil, unreadable{errors.New("0-length response with status code: 200 and content type: application/json")}
	}
	if asked.version == "v1beta1" {
		return readBeta(d, body, asked.mutates)
	}
	got := &admissionv1.AdmissionReview{}
	if _, _, err := d.Decode(body, nil, got); err != nil {
		return nil, unreadable{err}
	}
	r := got.Response
	if r == nil {
		return nil, errors.New("webhook response was absent")
	}
	if r.UID != asked.uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", asked.uid, r.UID)
	}
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	if kind := got.GroupVersionKind(); kind != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), kind.String())
	}
	said := &answer{annotations: r.AuditAnnotations, allowed: r.Allowed, result: r.Result, warnings: r.Warnings}
	switch {
	case !asked.mutates && len(r.Patch) > 0:
		return nil, errors.New("validating webhook may not return response.patch")
	case !asked.mutates && r.PatchType != nil:
		return nil, errors.New("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	case r.PatchType != nil:
		said.patch, said.patchType = r.Patch, *r.PatchType
	}
	return said, nil
}

// readBeta reads an answer of v1beta1, of which upstream checks neither the kind nor the uid, and
// whose patches are JSON patches.
func readBeta(d runtime.Decoder, body []byte, mutates bool) (*answer, error) {
	got := &admissionv1beta1.AdmissionReview{}
	if _, _, err := d.Decode(body, nil, got); err != nil {
		return nil, unreadable{err}
	}
	r := got.Response
	if r == nil {
		return nil, errors.New("webhook response was absent")
	}
	said := &answer{annotations: r.AuditAnnotations, allowed: r.Allowed, result: r.Result, warnings: r.Warnings}
	if mutates && len(r.Patch) > 0 {
		said.patch, said.patchType = r.Patch, admissionv1.PatchTypeJSONPatch
	}
	return said, nil
}
