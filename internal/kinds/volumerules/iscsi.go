package volumerules

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// target is what both kinds of volumes say about a disk that is reached by iSCSI.
type target struct {
	portal, iqn string
	lun         int32
	initiator   *string
	noSecret    bool // it needs a secret, and has none
}

func iscsi(at *field.Path, t target) field.ErrorList {
	errs := needs(at, "targetPortal", t.portal, "iqn", t.iqn)
	if t.iqn != "" {
		errs = append(errs, qualified(at.Child("iqn"), t.iqn)...)
	}
	errs = append(errs, unit(at, t.lun)...)
	if t.noSecret {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if t.initiator != nil {
		// Upstream writes the name of the field so.
		errs = append(errs, qualified(at.Child("initiatorname"), *t.initiator)...)
	}
	return errs
}

func persistentISCSI(at *field.Path, s *corev1.ISCSIPersistentVolumeSource, name string) field.ErrorList {
	const longest = 64
	errs := iscsi(at, target{
		s.TargetPortal, s.IQN, s.Lun, s.InitiatorName, (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil,
	})
	if s.InitiatorName != nil && len(name)+len(":")+len(s.TargetPortal) > longest {
		errs = append(errs, field.Invalid(at.Child("targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "+
				"iscsi.initiatorName is specified."))
	}
	if s.SecretRef != nil {
		errs = append(errs, needs(at.Child("secretRef"), "name", s.SecretRef.Name)...)
	}
	return errs
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// qualified checks a name of iSCSI: iqn.2006-01.org.example:disk, eui. and 16 digits or
// letters, or naa. and 32 of them.
func qualified(at *field.Path, name string) field.ErrorList {
	var valid bool
	switch kind, rest, _ := strings.Cut(name, "."); kind {
	case "iqn":
		valid = isIQN(rest)
	case "eui":
		valid = len(rest) == 16 && strings.Trim(rest, alphanumeric) == ""
	case "naa":
		valid = len(rest) == 32 && strings.Trim(rest, alphanumeric) == ""
	default:
		return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
	}
	if valid {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format")}
}

// isIQN checks what follows "iqn.": a year and a month, a reversed domain, and a name.
func isIQN(text string) bool {
	date, rest, _ := strings.Cut(text, ".")
	year, month, _ := strings.Cut(date, "-")
	if len(year) != 4 || len(month) != 2 || strings.Trim(year+month, "0123456789") != "" {
		return false
	}
	domain, name, _ := strings.Cut(rest, ":")
	return domain != "" && strings.Trim(domain, alphanumeric+".-") == "" && name != "" &&
		!strings.ContainsAny(name, ",;*&$| \t\r\n\f")
}
