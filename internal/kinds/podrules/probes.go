package podrules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkRunning checks what only a container that keeps running may have: probes and
// hooks. grace is how long its pod may take to end, in seconds.
func checkRunning(at *field.Path, c *corev1.Container, grace *int64) field.ErrorList {
	var errs field.ErrorList
	if c.Lifecycle != nil {
		errs = append(errs, checkHook(at.Child("lifecycle", "postStart"), c.Lifecycle.PostStart, grace)...)
		errs = append(errs, checkHook(at.Child("lifecycle", "preStop"), c.Lifecycle.PreStop, grace)...)
	}
	errs = append(errs, checkProbe(at, "livenessProbe", c.LivenessProbe)...)
	errs = append(errs, checkProbe(at, "readinessProbe", c.ReadinessProbe)...)
	errs = append(errs, checkProbe(at, "startupProbe", c.StartupProbe)...)
	errs = append(errs, succeedsOnce(at, "livenessProbe", c.LivenessProbe)...)
	errs = append(errs, succeedsOnce(at, "startupProbe", c.StartupProbe)...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs,
			field.Invalid(at.Child("readinessProbe", "terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds,
				"must not be set for readinessProbes"))
	}
	return errs
}

func succeedsOnce(at *field.Path, name string, probe *corev1.Probe) field.ErrorList {
	if probe == nil || probe.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child(name, "successThreshold"), probe.SuccessThreshold, "must be 1")}
}

func checkProbe(container *field.Path, name string, probe *corev1.Probe) field.ErrorList {
	if probe == nil {
		return nil
	}
	at := container.Child(name)
	errs := checkHandler(at, probe.ProbeHandler, nil)
	errs = append(errs, check.NotNegative(at, "initialDelaySeconds", &probe.InitialDelaySeconds)...)
	errs = append(errs, check.NotNegative(at, "timeoutSeconds", &probe.TimeoutSeconds)...)
	errs = append(errs, check.NotNegative(at, "periodSeconds", &probe.PeriodSeconds)...)
	errs = append(errs, check.NotNegative(at, "successThreshold", &probe.SuccessThreshold)...)
	errs = append(errs, check.NotNegative(at, "failureThreshold", &probe.FailureThreshold)...)
	return append(errs, check.Positive(at, "terminationGracePeriodSeconds", probe.TerminationGracePeriodSeconds)...)
}

func checkHook(at *field.Path, hook *corev1.LifecycleHandler, grace *int64) field.ErrorList {
	if hook == nil {
		return nil
	}
	var sleep func(*field.Path) field.ErrorList
	if hook.Sleep != nil {
		sleep = func(at *field.Path) field.ErrorList { return checkSleep(at, hook.Sleep.Seconds, grace) }
	}
	return checkHandler(at, corev1.ProbeHandler{Exec: hook.Exec, HTTPGet: hook.HTTPGet, TCPSocket: hook.TCPSocket}, sleep)
}

func checkSleep(at *field.Path, seconds int64, grace *int64) field.ErrorList {
	if grace == nil || seconds >= 0 && seconds <= *grace {
		return nil
	}
	return field.ErrorList{
		field.Invalid(at, seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace)),
	}
}

// checkHandler checks what a probe or a hook does: exactly one thing. Of several, only
// the first is looked at. sleep checks a pause, and is nil when there is none.
func checkHandler(at *field.Path, handler corev1.ProbeHandler, sleep func(*field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	found := false
	only := func(name string, has bool, look func(*field.Path) field.ErrorList) {
		switch {
		case !has:
		case found:
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 handler type"))
		default:
			found = true
			errs = append(errs, look(at.Child(name))...)
		}
	}
	only("exec", handler.Exec != nil, func(at *field.Path) field.ErrorList {
		if len(handler.Exec.Command) > 0 {
			return nil
		}
		return field.ErrorList{field.Required(at.Child("command"), "")}
	})
	only("httpGet", handler.HTTPGet != nil, func(at *field.Path) field.ErrorList { return checkHTTPGet(at, handler.HTTPGet) })
	only("tcpSocket", handler.TCPSocket != nil, func(at *field.Path) field.ErrorList {
		return check.PortOrName(at.Child("port"), handler.TCPSocket.Port)
	})
	only("grpc", handler.GRPC != nil, func(at *field.Path) field.ErrorList {
		return check.PortNumber(at.Child("port"), handler.GRPC.Port)
	})
	only("sleep", sleep != nil, sleep)
	if !found {
		errs = append(errs, field.Required(at, "must specify a handler type"))
	}
	return errs
}

func checkHTTPGet(at *field.Path, get *corev1.HTTPGetAction) field.ErrorList {
	errs := check.Required(at, "path", get.Path, nil)
	errs = append(errs, check.PortOrName(at.Child("port"), get.Port)...)
	errs = append(errs, check.Known(at, "scheme", get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, header := range get.HTTPHeaders {
		errs = append(errs, check.Invalid(at.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}
