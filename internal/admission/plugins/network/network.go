// Package network has admission plugins for Ingresses and Services.
package network

import (
	"context"
	"errors"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
)

// IngressClasses returns the table of IngressClasses for DefaultIngressClass. Its best one is the default class, of
// several the newest.
func IngressClasses() *plugins.Table[networkingv1.IngressClass] {
	of := kinds.GroupResource{Group: networkingv1.GroupName, Resource: "ingressclasses"}
	return plugins.NewTable(of, func(a, b *networkingv1.IngressClass) bool {
		switch {
		case b == nil:
			return a.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
		case a.CreationTimestamp.Equal(&b.CreationTimestamp):
			return a.Name < b.Name
		}
		return a.CreationTimestamp.After(b.CreationTimestamp.Time)
	})
}

// DefaultIngressClass is upstream's plugin of this name: new Ingresses that name no class get the default one.
func DefaultIngressClass(classes *plugins.Table[networkingv1.IngressClass]) plugins.Plugin {
	ingresses := kinds.GroupResource{Group: networkingv1.GroupName, Resource: "ingresses"}
	return plugins.Plugin{
		Name:     "DefaultIngressClass",
		Concerns: []plugins.Concern{{Resource: ingresses, Operations: []upstream.Operation{upstream.Create}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			spec, err := plugins.Spec(w.Object)
			if err != nil {
				return err
			}
			_, named := w.Object.GetAnnotations()[networkingv1beta1.AnnotationIngressClass]
			if named || spec["ingressClassName"] != nil {
				return nil
			}
			class, err := classes.Best()
			if err != nil {
				return err
			}
			if class != nil {
				spec["ingressClassName"] = class.Name
			}
			return nil
		},
	}
}

// DenyServiceExternalIPs is upstream's plugin of this name: Services may get no new external IPs.
func DenyServiceExternalIPs() plugins.Plugin {
	services := kinds.GroupResource{Resource: "services"}
	return plugins.Plugin{
		Name:     "DenyServiceExternalIPs",
		Concerns: []plugins.Concern{{Resource: services, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Validate: func(_ context.Context, w *plugins.Write) error {
			had := externalIPs(w.Old)
			for _, ip := range externalIPs(w.Object) {
				if !slices.Contains(had, ip) {
					return upstream.NewForbidden(w, errors.New("Use of external IPs is denied by admission control")) //nolint:staticcheck // upstream's text
				}
			}
			return nil
		},
	}
}

func externalIPs(service *unstructured.Unstructured) []string {
	if service == nil {
		return nil
	}
	all, _, _ := unstructured.NestedStringSlice(service.Object, "spec", "externalIPs") // a wrong type is none
	return all
}
