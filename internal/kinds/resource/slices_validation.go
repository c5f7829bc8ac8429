package resource

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateNewSlice validates a new ResourceSlice.
func validateNewSlice(o *resourcev1.ResourceSlice) field.ErrorList { return checkSlice(&o.Spec, nil) }

// checkSlice checks a slice. Capacities and taints that devices had before stay.
func checkSlice(spec *resourcev1.ResourceSliceSpec, before map[string]*resourcev1.Device) field.ErrorList {
	errs := driver(check.Spec(), spec.Driver)
	errs = append(errs, pool(check.Spec("pool", "name"), spec.Pool.Name)...)
	if n := spec.Pool.ResourceSliceCount; n <= 0 {
		errs = append(errs, field.Invalid(check.Spec("pool", "resourceSliceCount"), n, "must be greater than zero"))
	}
	if n := spec.Pool.Generation; n < 0 {
		errs = append(errs, field.Invalid(check.Spec("pool", "generation"), n, "must be greater than or equal to zero"))
	}
	errs = append(errs, checkSliceNodes(spec)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(check.Spec(), "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := resourcev1.ResourceSliceMaxDevices
	for i := range spec.Devices {
		if len(spec.Devices[i].Taints)+len(spec.Devices[i].ConsumesCounters) > 0 {
			most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	errs = append(errs,
		set(listOf(check.Spec("devices"), spec.Devices, most), func(at *field.Path, d *resourcev1.Device) field.ErrorList {
			return append(checkDevice(at, d, before[d.Name]), checkDeviceNodes(at, d, perDevice)...)
		}, func(d *resourcev1.Device) string { return d.Name })...)
	return append(errs, set(listOf(check.Spec("sharedCounters"), spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets),
		func(at *field.Path, c *resourcev1.CounterSet) field.ErrorList {
			errs := check.Required(at, "name", c.Name, validation.IsDNS1123Label)
			return append(errs,
				checkCounters(at.Child("counters"), c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet)...)
		}, func(c *resourcev1.CounterSet) string { return c.Name })...)
}

// validateSliceUpdate validates the change of a ResourceSlice from old to o.
func validateSliceUpdate(o, old *resourcev1.ResourceSlice) field.ErrorList {
	before := map[string]*resourcev1.Device{}
	for i := range old.Spec.Devices {
		before[old.Spec.Devices[i].Name] = &old.Spec.Devices[i]
	}
	errs := checkSlice(&o.Spec, before)
	errs = append(errs, check.Unchanged(check.Spec("pool"), "name", o.Spec.Pool.Name, old.Spec.Pool.Name)...)
	errs = append(errs, check.Unchanged(check.Spec(), "driver", o.Spec.Driver, old.Spec.Driver)...)
	return append(errs, check.Unchanged(check.Spec(), "nodeName", o.Spec.NodeName, old.Spec.NodeName)...)
}

// where are the ways to say on which nodes devices are, of which one is to be used.
type where struct {
	set      []string
	errs     field.ErrorList
	at       *field.Path
	required string
}

func (w *where) node(name *string, emptyWhy string) {
	switch {
	case name == nil:
	case *name == "":
		w.errs = append(w.errs, field.Invalid(w.at.Child("nodeName"), *name, emptyWhy))
	default:
		w.set = append(w.set, "`nodeName`")
		w.errs = append(w.errs, check.Invalid(w.at.Child("nodeName"), *name, validation.IsDNS1123Subdomain(*name))...)
	}
}

func (w *where) selector(s *corev1.NodeSelector) {
	if s != nil {
		w.set = append(w.set, "`nodeSelector`")
		w.errs = append(w.errs, podrules.NodeSelector(w.at.Child("nodeSelector"), s)...)
	}
}

func (w *where) flag(name string, on *bool) {
	switch {
	case on == nil:
	case *on:
		w.set = append(w.set, "`"+name+"`")
	default:
		w.errs = append(w.errs, field.Invalid(w.at.Child(name), *on, "must be either unset or set to true"))
	}
}

// done returns the errors, with one if it is not exactly one way.
func (w *where) done() field.ErrorList {
	switch len(w.set) {
	case 0:
		return append(w.errs, field.Required(w.at, w.required))
	case 1:
		return w.errs
	}
	return append(w.errs, field.Invalid(w.at, "{"+strings.Join(w.set, ", ")+"}", w.required+", but multiple fields are set"))
}

func checkSliceNodes(spec *resourcev1.ResourceSliceSpec) field.ErrorList {
	w := &where{
		at: check.Spec(), required: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
	}
	w.node(spec.NodeName, "must be either unset or set to a non-empty string")
	w.selector(spec.NodeSelector)
	if s := spec.NodeSelector; s != nil && len(s.NodeSelectorTerms) != 1 {
		w.errs = append(w.errs,
			field.Invalid(check.Spec("nodeSelector", "nodeSelectorTerms"), s.NodeSelectorTerms,
				"must have exactly one node selector term"))
	}
	w.flag("allNodes", spec.AllNodes)
	w.flag("perDeviceNodeSelection", spec.PerDeviceNodeSelection)
	return w.done()
}

// checkDeviceNodes checks where a device is, which it says itself if each device does.
func checkDeviceNodes(at *field.Path, d *resourcev1.Device, perDevice bool) field.ErrorList {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(at, nil,
				"`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "+
					"the ResourceSlice spec")}
		}
		return nil
	}
	w := &where{
		at: at,
		required: "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set " +
			"to true in the ResourceSlice spec",
	}
	w.node(d.NodeName, "must not be empty")
	w.selector(d.NodeSelector)
	w.flag("allNodes", d.AllNodes)
	return w.done()
}

// checkDevice checks a device; was is the same one before, nil for a new one.
func checkDevice(at *field.Path, d, was *resourcev1.Device) field.ErrorList {
	errs := label(at.Child("name"), d.Name)
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(at, n, "the total number of attributes and capacities must not exceed 32"))
	}
	for name, attribute := range d.Attributes {
		in := at.Child("attributes")
		errs = append(errs, qualified(in, string(name))...)
		errs = append(errs, checkAttribute(in.Key(string(name)), &attribute)...)
	}
	if was == nil || !equality.Semantic.DeepEqual(was.Capacity, d.Capacity) {
		errs = append(errs, checkCapacities(at.Child("capacity"), d)...)
	}
	if was == nil || !equality.Semantic.DeepEqual(was.Taints, d.Taints) {
		errs = append(errs, each(at.Child("taints"), d.Taints, resourcev1.DeviceTaintsMaxLength, checkTaint)...)
	}
	errs = append(errs,
		set(listOf(at.Child("consumesCounters"), d.ConsumesCounters,
			resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice),
			func(at *field.Path, c *resourcev1.DeviceCounterConsumption) field.ErrorList {
				errs := check.Required(at, "counterSet", c.CounterSet, validation.IsDNS1123Label)
				return append(errs,
					checkCounters(at.Child("counters"), c.Counters,
						resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)...)
			}, func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet })...)
	return append(errs, checkBinding(at, d.BindingConditions, d.BindingFailureConditions)...)
}

func checkCapacities(at *field.Path, d *resourcev1.Device) field.ErrorList {
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	var errs field.ErrorList
	for name, capacity := range d.Capacity {
		errs = append(errs, qualified(at, string(name))...)
		p := at.Key(string(name)).Child("requestPolicy")
		switch {
		case capacity.RequestPolicy == nil:
		case shared:
			errs = append(errs, checkPolicy(p, capacity.Value, capacity.RequestPolicy)...)
		default:
			errs = append(errs, field.Forbidden(p, "allowMultipleAllocations must be true"))
		}
	}
	return errs
}

func checkCounters(at *field.Path, counters map[string]resourcev1.Counter, most int) field.ErrorList {
	if len(counters) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(counters) > most {
		return field.ErrorList{field.TooMany(at, len(counters), most)}
	}
	var errs field.ErrorList
	for name := range counters {
		errs = append(errs, label(at, name)...)
	}
	return errs
}

// version matches versions of semver.org 2.0.0.
var version = regexp.MustCompile(
	`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

// checkAttribute checks an attribute of a device: it has one value.
func checkAttribute(at *field.Path, a *resourcev1.DeviceAttribute) field.ErrorList {
	var errs field.ErrorList
	if s := a.StringValue; s != nil && len(*s) > resourcev1.DeviceAttributeMaxValueLength {
		errs = append(errs, field.TooLong(at.Child("string"), "", resourcev1.DeviceAttributeMaxValueLength))
	}
	if v := a.VersionValue; v != nil {
		if !version.MatchString(*v) {
			errs = append(errs, field.Invalid(at.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(*v) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(at.Child("version"), "", resourcev1.DeviceAttributeMaxValueLength))
		}
	}
	if n := check.Sources(*a); n != 1 {
		var value any = ""
		if n > 1 {
			value = *a
		}
		errs = append(errs, field.Invalid(at, value, "exactly one value must be specified"))
	}
	return errs
}
