package podrules

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkPodSecurity checks the security context of a pod; not its kernel parameters, nor
// what is for Windows only.
func checkPodSecurity(at *field.Path, c *corev1.PodSecurityContext) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := accountID(at, "runAsUser", c.RunAsUser)
	errs = append(errs, accountID(at, "runAsGroup", c.RunAsGroup)...)
	errs = append(errs, accountID(at, "fsGroup", c.FSGroup)...)
	for i := range c.SupplementalGroups {
		errs = append(errs, accountID(at.Child("supplementalGroups").Index(i), "", &c.SupplementalGroups[i])...)
	}
	errs = append(errs, check.KnownIfSet(at, "fsGroupChangePolicy", c.FSGroupChangePolicy,
		corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	errs = append(errs, check.KnownIfSet(at, "supplementalGroupsPolicy", c.SupplementalGroupsPolicy,
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	errs = append(errs, check.KnownIfSet(at, "seLinuxChangePolicy", c.SELinuxChangePolicy,
		corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	errs = append(errs, checkSeccomp(at, c.SeccompProfile)...)
	return append(errs, checkAppArmor(at, c.AppArmorProfile)...)
}

// checkContainerSecurity checks the security context of a container.
func checkContainerSecurity(container *field.Path, c *corev1.SecurityContext) field.ErrorList {
	if c == nil {
		return nil
	}
	at := container.Child("securityContext")
	errs := accountID(at, "runAsUser", c.RunAsUser)
	errs = append(errs, accountID(at, "runAsGroup", c.RunAsGroup)...)
	errs = append(errs, check.KnownIfSet(at, "procMount", c.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
	errs = append(errs, checkSeccomp(at, c.SeccompProfile)...)
	errs = append(errs, checkAppArmor(at, c.AppArmorProfile)...)
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		return errs
	}
	if isTrue(c.Privileged) {
		errs = append(errs, field.Invalid(at, c, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if c.Capabilities == nil {
		return errs
	}
	for _, added := range c.Capabilities.Add {
		if added == "CAP_SYS_ADMIN" {
			errs = append(errs,
				field.Invalid(at, c, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	return errs
}

// accountID checks the number of a user or a group; both have the same limits. With the
// name "" it is what stands at the path itself.
func accountID(at *field.Path, name string, id *int64) field.ErrorList {
	if id == nil {
		return nil
	}
	why := validation.IsValidUserID(*id)
	if len(why) == 0 {
		return nil
	}
	if name != "" {
		at = at.Child(name)
	}
	return check.Invalid(at, *id, why)
}

func checkSeccomp(context *field.Path, p *corev1.SeccompProfile) field.ErrorList {
	if p == nil {
		return nil
	}
	at := context.Child("seccompProfile")
	errs := check.OneOf(at, "type", p.Type,
		corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	local := p.Type == corev1.SeccompProfileTypeLocalhost
	switch name := at.Child("localhostProfile"); {
	case local && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(name, "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, check.DescendingPath(at, "localhostProfile", *p.LocalhostProfile)...)
	case p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(name, p, "can only be set when seccomp type is Localhost"))
	}
	return errs
}

func checkAppArmor(context *field.Path, p *corev1.AppArmorProfile) field.ErrorList {
	if p == nil {
		return nil
	}
	at := context.Child("appArmorProfile")
	const longest = 4095 // bytes of a path on Linux: PATH_MAX - 1
	errs := check.OneOf(at, "type", p.Type,
		corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	local := p.Type == corev1.AppArmorProfileTypeLocalhost
	switch name := at.Child("localhostProfile"); {
	case local && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		errs = append(errs, field.Required(name, "must be set when AppArmor type is Localhost"))
	case local && strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
		errs = append(errs, field.Invalid(name, *p.LocalhostProfile, "must not be padded with whitespace"))
	case local && len(*p.LocalhostProfile) > longest:
		errs = append(errs, field.TooLong(name, "", longest))
	case len(errs) == 0 && !local && p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(name, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
	}
	return errs
}
