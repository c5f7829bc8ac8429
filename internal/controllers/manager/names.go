package manager

import (
	"fmt"
	"slices"
	"strings"
)

// Names returns the controllers of kube-controller-manager that the server has.
func Names() []string {
	return append([]string{"garbage-collector-controller", "namespace-controller", "resourcequota-controller"}, Protectors()...)
}

// Protectors returns those that end what the admission plugin StorageObjectInUseProtection begins.
func Protectors() []string {
	return []string{
		"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller",
		"volumeattributesclass-protection-controller",
	}
}

// Name returns the name of a controller that is named, or has another name (kubernetes
// cmd/kube-controller-manager/names KCMControllerAliases).
func Name(name string) string {
	switch name {
	case "garbagecollector":
		return "garbage-collector-controller"
	case "namespace", "resourcequota":
		return name + "-controller"
	case "pvc-protection":
		return "persistentvolumeclaim-protection-controller"
	case "pv-protection":
		return "persistentvolume-protection-controller"
	}
	return name
}

// Check returns an error for a name in a list of controllers that is unknown.
func Check(list []string) error {
	for _, item := range list {
		if item != "*" && !slices.Contains(Names(), Name(strings.TrimPrefix(item, "-"))) {
			return fmt.Errorf("controller %q is unknown: want *, %s, each with - in front to turn it off",
				item, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Runs reports whether a controller is in a list: by its name, or by * without its name after a -
// (k8s.io/controller-manager app.IsControllerEnabled). The first of them counts.
func Runs(list []string, controller string) bool {
	star := false
	for _, item := range list {
		name, off := strings.CutPrefix(item, "-")
		switch {
		case Name(name) == controller:
			return !off
		case item == "*":
			star = true
		}
	}
	return star
}
