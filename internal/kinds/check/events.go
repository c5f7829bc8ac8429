package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Lengths of the fields of an event (kubernetes pkg/apis/core/validation/events.go).
const (
	maxEventWord = 128
	maxEventNote = 1024
)

// Event checks an event of any version, in which the field of who reports it is called reporter. Events of cluster-scoped
// objects are kept in two namespaces, those of the old form, which have no eventTime, in one.
func Event(o *corev1.Event, reporter string) field.ErrorList {
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
	by := field.NewPath(reporter)
	if o.ReportingController == "" {
		errs = append(errs, field.Required(by, ""))
	}
	errs = append(errs, Invalid(by, o.ReportingController, validation.IsQualifiedName(o.ReportingController))...)
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
	return Required(at, "", value, func(value string) []string {
		if len(value) <= maxEventWord {
			return nil
		}
		return []string{fmt.Sprintf("can have at most %d characters", maxEventWord)}
	})
}
