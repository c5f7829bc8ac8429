package resource

import (
	"regexp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// allocatedID names a device that is allocated, or a share of it.
type allocatedID struct{ driver, pool, device, share string }

func (d allocatedID) String() string {
	text := d.driver + "/" + d.pool + "/" + d.device
	if d.share != "" {
		text += "/" + d.share
	}
	return text
}

func checkClaimStatus(o, old *resourcev1.ResourceClaim) field.ErrorList {
	s, was, at := &o.Status, &old.Status, field.NewPath("status")
	if equality.Semantic.DeepEqual(s, was) {
		return nil
	}
	errs := set(listOf(at.Child("reservedFor"), s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize), checkConsumer,
		func(c *resourcev1.ResourceClaimConsumerReference) types.UID { return c.UID })
	allocated := map[allocatedID]bool{}
	if s.Allocation != nil {
		for _, r := range s.Allocation.Devices.Results {
			allocated[allocatedID{r.Driver, r.Pool, r.Device, share((*string)(r.ShareID))}] = true
		}
	}
	id := func(d *resourcev1.AllocatedDeviceStatus) allocatedID {
		return allocatedID{d.Driver, d.Pool, d.Device, share(d.ShareID)}
	}
	errs = append(errs,
		set(listOf(at.Child("devices"), s.Devices, len(s.Devices)),
			func(at *field.Path, d *resourcev1.AllocatedDeviceStatus) field.ErrorList {
				errs := checkDeviceStatus(at, d)
				if !allocated[id(d)] {
					errs = append(errs, field.Invalid(at, id(d).String(), "must be an allocated device in the claim"))
				}
				return errs
			}, id)...)
	errs = append(errs, checkReserved(at.Child("reservedFor"), o, was)...)
	switch {
	case s.Allocation == nil:
		return errs
	case was.Allocation != nil:
		return append(errs, check.Unchanged(at, "allocation", s.Allocation, was.Allocation)...)
	}
	return append(errs, checkAllocation(at.Child("allocation"), s.Allocation, namesOf(&o.Spec.Devices))...)
}

func share(id *string) string {
	if id == nil {
		return ""
	}
	return *id
}

// checkReserved lets only an allocated claim have users, and one under deletion no new ones.
func checkReserved(at *field.Path, o *resourcev1.ResourceClaim, was *resourcev1.ResourceClaimStatus) field.ErrorList {
	s := &o.Status
	if len(s.ReservedFor) == 0 {
		return nil
	}
	if s.Allocation == nil {
		return field.ErrorList{field.Forbidden(at, "may not be specified when `allocated` is not set")}
	}
	added := slices.ContainsFunc(s.ReservedFor, func(c resourcev1.ResourceClaimConsumerReference) bool {
		return !slices.Contains(was.ReservedFor, c)
	})
	if o.DeletionTimestamp != nil && added {
		return field.ErrorList{
			field.Forbidden(at, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"),
		}
	}
	return nil
}

func checkConsumer(at *field.Path, c *resourcev1.ResourceClaimConsumerReference) field.ErrorList {
	errs := check.Required(at, "resource", c.Resource, nil)
	errs = append(errs, check.Required(at, "name", c.Name, nil)...)
	return append(errs, check.Required(at, "uid", string(c.UID), nil)...)
}

func checkAllocation(at *field.Path, a *resourcev1.AllocationResult, of names) field.ErrorList {
	in := at.Child("devices")
	errs := each(in.Child("results"), a.Devices.Results, resourcev1.AllocationResultsMaxSize,
		func(at *field.Path, r *resourcev1.DeviceRequestAllocationResult) field.ErrorList {
			return checkResult(at, r, of)
		})
	// Those of the class and those of the claim.
	errs = append(errs, each(in.Child("config"), a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize,
		func(at *field.Path, c *resourcev1.DeviceAllocationConfiguration) field.ErrorList {
			errs := check.OneOf(at, "source", c.Source, resourcev1.AllocationConfigSourceClaim,
				resourcev1.AllocationConfigSourceClass)
			errs = append(errs, texts(at.Child("requests"), c.Requests, resourcev1.DeviceRequestsMaxSize, of.reference)...)
			return append(errs, checkConfiguration(at, &c.DeviceConfiguration)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, podrules.NodeSelector(at.Child("nodeSelector"), a.NodeSelector)...)
	}
	return errs
}

func checkResult(at *field.Path, r *resourcev1.DeviceRequestAllocationResult, of names) field.ErrorList {
	errs := of.reference(at.Child("request"), &r.Request)
	errs = append(errs, driver(at, r.Driver)...)
	errs = append(errs, pool(at.Child("pool"), r.Pool)...)
	errs = append(errs, label(at.Child("device"), r.Device)...)
	errs = append(errs, checkBinding(at, r.BindingConditions, r.BindingFailureConditions)...)
	errs = append(errs, each(at.Child("tolerations"), r.Tolerations, resourcev1.DeviceTolerationsMaxLength, checkToleration)...)
	return append(errs, checkShare(at.Child("shareID"), (*string)(r.ShareID))...)
}

// normalUID matches UIDs as they are written by default.
var normalUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// checkShare checks the UID of a share of a device.
func checkShare(at *field.Path, id *string) field.ErrorList {
	if id == nil {
		return nil
	}
	if !normalUID.MatchString(*id) {
		return field.ErrorList{field.Invalid(at, *id,
			"uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "+
				"hexadecimal characters")}
	}
	return nil
}

func checkDeviceStatus(at *field.Path, d *resourcev1.AllocatedDeviceStatus) field.ErrorList {
	errs := driver(at, d.Driver)
	errs = append(errs, pool(at.Child("pool"), d.Pool)...)
	errs = append(errs, label(at.Child("device"), d.Device)...)
	errs = append(errs, checkShare(at.Child("shareID"), d.ShareID)...)
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(at.Child("conditions"), n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metavalidation.ValidateConditions(d.Conditions, at.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, raw(at.Child("data"), *d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength)...)
	}
	n := d.NetworkData
	if n == nil {
		return errs
	}
	at = at.Child("networkData")
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(at.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(at.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, texts(at.Child("ips"), n.IPs, resourcev1.NetworkDeviceDataMaxIPs,
		func(at *field.Path, ip *string) field.ErrorList { return validation.IsValidInterfaceAddress(at, *ip) })...)
}

// checkBinding checks the conditions that a pod waits for before it is bound to a node.
func checkBinding(at *field.Path, conditions, failures []string) field.ErrorList {
	name := func(at *field.Path, text *string) field.ErrorList { return metavalidation.ValidateLabelName(*text, at) }
	on, off := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	errs := texts(on, conditions, resourcev1.BindingConditionsMaxSize, name)
	errs = append(errs, texts(off, failures, resourcev1.BindingFailureConditionsMaxSize, name)...)
	for i, failure := range failures {
		if slices.Contains(conditions, failure) {
			errs = append(errs,
				field.Invalid(off.Index(i), failure, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	if len(conditions) == 0 && len(failures) > 0 {
		errs = append(errs, field.Invalid(on, conditions, "bindingConditions are required to use bindingFailureConditions"))
	}
	if len(failures) == 0 && len(conditions) > 0 {
		errs = append(errs, field.Invalid(off, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
