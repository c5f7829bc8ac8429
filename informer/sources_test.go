package informer_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

func TestMetadataSourcesReceiveMetadataOnly(t *testing.T) {
	for name, c := range map[string]struct {
		has  string
		opts []informer.Option
		want []string
	}{
		"protobuf, list": {
			opts: []informer.Option{informer.NoStreamingLists()}, want: []string{"LIST protobuf", "WATCH protobuf"},
		},
		"protobuf, streaming": {want: []string{"WATCH protobuf"}},
		"JSON, list": {
			has: "406", opts: []informer.Option{informer.NoStreamingLists()},
			want: []string{"LIST protobuf", "LIST json", "WATCH json"},
		},
		"JSON, streaming": {has: "json", want: []string{"WATCH protobuf"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPodServer(t, 5)
				s.ServesMetadata = true
				s.Fail(without(c.has))
				while(t, informer.Metadata(listwatchtest.Config(s), podsGVR(), informer.StripManagedFields()),
					func(i *informer.Informer[*metav1.PartialObjectMetadata]) {
						after(time.Second)
						for key, o := range i.All() {
							want := &metav1.PartialObjectMetadata{
								TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
								ObjectMeta: s.pod(t, key).ObjectMeta,
							}
							want.ManagedFields = nil
							if diff := cmp.Diff(want, o); diff != "" {
								t.Error(diff)
							}
						}
						if st := i.Status(); i.Len() != 5 || st.Last != nil {
							t.Errorf("%+v", st)
						}
					}, c.opts...)
				if diff := cmp.Diff(c.want, s.seen()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestMetadataSourcesRejectWholeObjects(t *testing.T) {
	for _, has := range []string{"", "json"} {
		for _, opts := range [][]informer.Option{nil, {informer.NoStreamingLists()}} {
			synctest.Test(t, func(t *testing.T) {
				s := newPodServer(t, 5)
				s.Fail(without(has))
				while(t, informer.Metadata(listwatchtest.Config(s), podsGVR()),
					func(i *informer.Informer[*metav1.PartialObjectMetadata]) {
						after(time.Second)
						st := i.Status()
						if i.Len() != 0 || st.Last == nil || st.Last.Kind != informer.Undecodable ||
							!strings.Contains(st.Last.Err.Error(), "not the PartialObjectMetadata") {
							t.Errorf("%q: %d objects, %+v", has, i.Len(), st)
						}
					}, opts...)
			})
			synctest.Test(t, func(t *testing.T) {
				s := newPodServer(t, 5)
				s.Fail(without(has))
				five(t, informer.For[*metav1.PartialObjectMetadata](listwatchtest.Config(s), podsGVR()))
			})
		}
	}
}

// TestBuiltInKindsKnowTheirResource has what is out of the ordinary. That all of them
// are right, the module compat/informer checks against the generated clients.
func TestBuiltInKindsKnowTheirResource(t *testing.T) {
	s := newPodServer(t, 0)
	cfg := listwatchtest.Config(s)
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	for want, name := range map[string]string{
		"pods": informer.Builtin[*corev1.Pod](cfg).Name(),
		//nolint:staticcheck // deprecated, but a name that is its own plural
		"endpoints/a": informer.Builtin[*corev1.Endpoints](cfg,
			informer.Namespace("a")).Name(),
		"deployments.apps":                                         informer.Builtin[*appsv1.Deployment](cfg).Name(),
		"ingresses.networking.k8s.io":                              informer.Builtin[*networkingv1.Ingress](cfg).Name(),
		"networkpolicies.networking.k8s.io":                        informer.Builtin[*networkingv1.NetworkPolicy](cfg).Name(),
		"ingressclasses.networking.k8s.io":                         informer.Builtin[*networkingv1.IngressClass](cfg).Name(),
		"roles.rbac.authorization.k8s.io":                          informer.Builtin[*rbacv1.Role](cfg).Name(),
		"csistoragecapacities.storage.k8s.io":                      informer.Builtin[*storagev1.CSIStorageCapacity](cfg).Name(),
		"flowschemas.flowcontrol.apiserver.k8s.io":                 informer.Builtin[*flowcontrolv1.FlowSchema](cfg).Name(),
		"endpointslices.discovery.k8s.io":                          informer.Builtin[*discoveryv1.EndpointSlice](cfg).Name(),
		"events.events.k8s.io":                                     informer.Builtin[*eventsv1.Event](cfg).Name(),
		"poddisruptionbudgets.policy":                              informer.Builtin[*policyv1.PodDisruptionBudget](cfg).Name(),
		"validatingadmissionpolicies.admissionregistration.k8s.io": informer.Builtin[*policy](cfg).Name(),
	} {
		if name != want {
			t.Errorf("%s is called %s", want, name)
		}
	}
	if informer.Builtin[*corev1.Pod](cfg).Identity() != informer.For[*corev1.Pod](cfg, podsGVR()).Identity() {
		t.Error("pods are not the pods of For")
	}
	for name, err := range map[string]error{
		"a type of one's own": informer.New(informer.Builtin[*thing](cfg)).Run(t.Context()),
		"of apimachinery":     informer.New(informer.Builtin[*metav1.PartialObjectMetadata](cfg)).WaitSynced(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "not a built-in kind") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
