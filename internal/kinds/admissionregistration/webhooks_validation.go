package admissionregistration

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewMutatingWebhooks validates a new MutatingWebhookConfiguration.
func validateNewMutatingWebhooks(o *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	return append(checkHooks(o.Webhooks, strict()), notStatic(o.Name)...)
}

// validateMutatingWebhooksUpdate validates the change of a MutatingWebhookConfiguration from old
// to o.
func validateMutatingWebhooksUpdate(o, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	return checkHooks(o.Webhooks, since(o.Webhooks, old.Webhooks))
}

// validateNewValidatingWebhooks validates a new ValidatingWebhookConfiguration.
func validateNewValidatingWebhooks(o *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return append(checkHooks(asMutating(o.Webhooks), strict()), notStatic(o.Name)...)
}

// validateValidatingWebhooksUpdate validates the change of a ValidatingWebhookConfiguration from
// old to o.
func validateValidatingWebhooksUpdate(o, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	now, before := asMutating(o.Webhooks), asMutating(old.Webhooks)
	return checkHooks(now, since(now, before))
}

// asMutating returns validating webhooks as mutating ones, which have all of their fields
// and a reinvocationPolicy.
func asMutating(hooks []admissionv1.ValidatingWebhook) []admissionv1.MutatingWebhook {
	all := make([]admissionv1.MutatingWebhook, 0, len(hooks))
	for i := range hooks {
		h := &hooks[i]
		all = append(all, admissionv1.MutatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy,
			MatchPolicy:       h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions,
			MatchConditions: h.MatchConditions,
		})
	}
	return all
}

// demands are what is checked of webhooks. An update need not have what the webhooks had
// not before.
type demands struct {
	conditions, noSideEffects, knownReview, uniqueNames, labelValues bool

	stored map[string]bool // expressions
}

func strict() demands {
	return demands{conditions: true, noSideEffects: true, knownReview: true, uniqueNames: true, labelValues: true}
}

// since returns the demands for a change from old to now.
func since(now, old []admissionv1.MutatingWebhook) demands {
	all := func(rule func(h *admissionv1.MutatingWebhook) bool) bool {
		for i := range old {
			if !rule(&old[i]) {
				return false
			}
		}
		return true
	}
	names := map[string]bool{}
	same := func(a, b admissionv1.MutatingWebhook) bool {
		return equality.Semantic.DeepEqual(a.MatchConditions, b.MatchConditions)
	}
	return demands{
		conditions: !slices.EqualFunc(now, old, same),
		noSideEffects: all(func(h *admissionv1.MutatingWebhook) bool {
			return h.SideEffects != nil && slices.Contains(harmless(), *h.SideEffects)
		}),
		knownReview: all(func(h *admissionv1.MutatingWebhook) bool {
			return len(h.AdmissionReviewVersions) == 0 || slices.ContainsFunc(h.AdmissionReviewVersions, knownReview)
		}),
		uniqueNames: all(func(h *admissionv1.MutatingWebhook) bool {
			seen := names[h.Name]
			names[h.Name] = true
			return !seen
		}),
		labelValues: all(func(h *admissionv1.MutatingWebhook) bool {
			return len(selector(nil, h.NamespaceSelector, true)) == 0 && len(selector(nil, h.ObjectSelector, true)) == 0
		}),
		stored: set(hookTexts(old)),
	}
}

func harmless() []admissionv1.SideEffectClass {
	return []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
}

func knownReview(version string) bool { return version == "v1" || version == "v1beta1" }

// hookTexts yields the expressions of webhooks.
func hookTexts(hooks []admissionv1.MutatingWebhook) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range hooks {
			for text := range textsOf(hooks[i].MatchConditions) {
				if !yield(text) {
					return
				}
			}
		}
	}
}

func selector(at *field.Path, s *metav1.LabelSelector, strictly bool) field.ErrorList {
	if s == nil {
		return nil
	}
	return metavalidation.ValidateLabelSelector(s,
		metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: !strictly}, at)
}

func checkHooks(hooks []admissionv1.MutatingWebhook, want demands) field.ErrorList {
	path := field.NewPath("webhooks")
	if errs := bounded(path, hookTexts(hooks)); errs != nil {
		return errs
	}
	var errs field.ErrorList
	p, seen := &program{stored: want.stored}, map[string]bool{}
	for i := range hooks {
		h, at := &hooks[i], path.Index(i)
		errs = append(errs, checkHook(at, h, want)...)
		if want.conditions {
			errs = append(errs, p.conditions(at.Child("matchConditions"), h.MatchConditions)...)
		}
		errs = append(errs, reviewVersions(at.Child("admissionReviewVersions"), h.AdmissionReviewVersions, want.knownReview)...)
		if want.uniqueNames && h.Name != "" {
			if seen[h.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), h.Name))
			}
			seen[h.Name] = true
		}
	}
	return errs
}

func checkHook(at *field.Path, h *admissionv1.MutatingWebhook, want demands) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, checkRule(at.Child("rules").Index(i), &h.Rules[i])...)
	}
	errs = append(errs, failurePolicy(at, h.FailurePolicy)...)
	errs = append(errs, matchPolicy(at, h.MatchPolicy)...)
	effects := harmless()
	if !want.noSideEffects {
		effects = append(effects, admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown)
	}
	if h.SideEffects == nil {
		names := make([]string, 0, len(effects))
		for _, e := range effects {
			names = append(names, string(e))
		}
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of "+strings.Join(names, ", ")))
	}
	errs = append(errs, check.KnownIfSet(at, "sideEffects", h.SideEffects, effects...)...)
	if s := h.TimeoutSeconds; s != nil && (*s > 30 || *s < 1) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *s, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, selector(at.Child("namespaceSelector"), h.NamespaceSelector, want.labelValues)...)
	errs = append(errs, selector(at.Child("objectSelector"), h.ObjectSelector, want.labelValues)...)
	errs = append(errs,
		check.KnownIfSet(at, "reinvocationPolicy", h.ReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy,
			admissionv1.NeverReinvocationPolicy)...)
	return append(errs, clientConfig(at.Child("clientConfig"), &h.ClientConfig)...)
}

func clientConfig(at *field.Path, c *admissionv1.WebhookClientConfig) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return webhook.ValidateWebhookURL(at.Child("url"), *c.URL, true)
	}
	var port int32 // upstream's internal form has a number; the defaults have filled it in
	if c.Service.Port != nil {
		port = *c.Service.Port
	}
	// Upstream passes the name for the namespace, and the reverse: an empty one is reported
	// at the other field.
	return webhook.ValidateWebhookService(at.Child("service"), c.Service.Name, c.Service.Namespace, c.Service.Path, port)
}

func reviewVersions(at *field.Path, versions []string, known bool) field.ErrorList {
	const accepted = "v1, v1beta1"
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+accepted)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, v := range versions {
		if seen[v] {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		seen[v] = true
		errs = append(errs, check.Invalid(at.Index(i), v, validation.IsDNS1035Label(v))...)
	}
	if known && !slices.ContainsFunc(versions, knownReview) {
		errs = append(errs, field.Invalid(at, versions, fmt.Sprintf("must include at least one of %s", accepted)))
	}
	return errs
}
