package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// Lengths of the fields of an event (kubernetes pkg/apis/core/validation/events.go).
const (
	maxEventWord = 128
	maxEventNote = 1024
)

// validateEvent validates an Event. Events of cluster-scoped objects are kept in two namespaces,
// those of the old form, which have no eventTime, in one.
func validateEvent(o *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("involvedObject", "namespace")
	old, ns := o.EventTime.IsZero(), o.InvolvedObject.Namespace
	elsewhere := ns != "" && old && ns != o.Namespace
	if ns == "" {
		elsewhere = o.Namespace != "default" && (old || o.Namespace != "kube-system")
	}
	if elsewhere {
		errs = append(errs, field.Invalid(at, ns, "does not match event.namespace"))
	}
	if old {
		return errs
	}
	reporter := field.NewPath("reportingComponent")
	if o.ReportingController == "" {
		errs = append(errs, field.Required(reporter, ""))
	}
	errs = append(errs, check.Invalid(reporter, o.ReportingController, validation.IsQualifiedName(o.ReportingController))...)
	errs = append(errs, word(field.NewPath("reportingInstance"), o.ReportingInstance)...)
	errs = append(errs, word(field.NewPath("action"), o.Action)...)
	errs = append(errs, word(field.NewPath("reason"), o.Reason)...)
	if len(o.Message) > maxEventNote {
		errs = append(errs,
			field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %d characters", maxEventNote)))
	}
	return errs
}

func word(at *field.Path, value string) field.ErrorList {
	return check.Required(at, "", value, func(value string) []string {
		if len(value) <= maxEventWord {
			return nil
		}
		return []string{fmt.Sprintf("can have at most %d characters", maxEventWord)}
	})
}
