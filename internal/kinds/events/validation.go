package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateEvent validates every event of events.k8s.io/v1, by the rules of the core group.
func validateEvent(o *eventsv1.Event) field.ErrorList {
	return check.Event(&corev1.Event{
		ObjectMeta: o.ObjectMeta, EventTime: o.EventTime, InvolvedObject: o.Regarding, Message: o.Note,
		Reason: o.Reason, Action: o.Action, ReportingController: o.ReportingController, ReportingInstance: o.ReportingInstance,
	}, "reportingController")
}

// validateNewEvent validates a new event of events.k8s.io/v1, which accepts only the new form.
func validateNewEvent(o *eventsv1.Event) field.ErrorList {
	var errs field.ErrorList
	if o.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if o.Type != corev1.EventTypeNormal && o.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+o.Type))
	}
	unset := func(name string, is bool) {
		if !is {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	// The names are those of the core group, as upstream's.
	unset("firstTimestamp", o.DeprecatedFirstTimestamp.IsZero())
	unset("lastTimestamp", o.DeprecatedLastTimestamp.IsZero())
	unset("count", o.DeprecatedCount == 0)
	unset("source", o.DeprecatedSource == corev1.EventSource{})
	return append(errs, checkSeries(o)...)
}

func checkSeries(o *eventsv1.Event) field.ErrorList {
	if o.Series == nil {
		return nil
	}
	var errs field.ErrorList
	if o.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if o.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateEventUpdate validates the change of an event: only the series may change.
func validateEventUpdate(o, old *eventsv1.Event) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(o.Series, old.Series) {
		errs = checkSeries(o)
	}
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", o.Regarding, old.Regarding},
		{"reason", o.Reason, old.Reason},
		{"message", o.Note, old.Note},
		{"source", o.DeprecatedSource, old.DeprecatedSource},
		{"firstTimestamp", o.DeprecatedFirstTimestamp, old.DeprecatedFirstTimestamp},
		{"lastTimestamp", o.DeprecatedLastTimestamp, old.DeprecatedLastTimestamp},
		{"count", o.DeprecatedCount, old.DeprecatedCount},
		{"type", o.Type, old.Type},
		{"eventTime", o.EventTime, old.EventTime},
		{"action", o.Action, old.Action},
		{"related", o.Related, old.Related},
		{"reportingController", o.ReportingController, old.ReportingController},
		{"reportingInstance", o.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, check.Unchanged(nil, f.name, f.now, f.was)...)
	}
	return errs
}
