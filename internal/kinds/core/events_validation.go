package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateEvent validates an Event.
func validateEvent(o *corev1.Event) field.ErrorList { return check.Event(o, "reportingComponent") }
