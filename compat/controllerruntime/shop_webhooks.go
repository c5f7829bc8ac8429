package controllerruntime

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The manifests of the webhooks are made of the markers below, as kubebuilder's projects do.
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 webhook paths=. output:webhook:dir=testdata

//+kubebuilder:webhook:path=/mutate-example-org-v2-shop,mutating=true,failurePolicy=fail,sideEffects=None,groups=example.org,resources=shops,verbs=create;update,versions=v2,name=mshop.example.org,admissionReviewVersions=v1

// shopDefaulter fills in what a Shop sells.
type shopDefaulter struct{}

func (shopDefaulter) Default(_ context.Context, s *shopV2) error {
	if s.Spec.Content.Of == "" {
		s.Spec.Content.Of = "bread"
	}
	return nil
}

//+kubebuilder:webhook:path=/validate-example-org-v2-shop,mutating=false,failurePolicy=fail,sideEffects=None,groups=example.org,resources=shops,verbs=create;update;delete,versions=v2,name=vshop.example.org,admissionReviewVersions=v1

// shopValidator refuses Shops that sell poison, and that a Shop with the annotation keep is
// deleted.
type shopValidator struct{}

func (shopValidator) ValidateCreate(_ context.Context, s *shopV2) (admission.Warnings, error) {
	switch s.Spec.Content.Of {
	case "poison":
		return nil, errors.New("no shop sells poison")
	case "milk":
		return admission.Warnings{"milk turns sour"}, nil
	}
	return nil, nil
}

func (v shopValidator) ValidateUpdate(ctx context.Context, _, s *shopV2) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, s)
}

func (shopValidator) ValidateDelete(_ context.Context, s *shopV2) (admission.Warnings, error) {
	if s.Annotations["keep"] != "" {
		return nil, errors.New("it is to be kept")
	}
	return nil, nil
}

// serveShopWebhooks adds the webhooks to a manager: these two, and the conversion.
func serveShopWebhooks(m ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(m, &shopV2{}).WithDefaulter(shopDefaulter{}).WithValidator(shopValidator{}).Complete()
}
