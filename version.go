package gapless

import (
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// KubernetesVersion is the version of the Kubernetes API that the server implements.
const KubernetesVersion = "1.37.2"

// Version returns what /version answers: the Kubernetes version with the
// module's own version, or the commit it was built from, behind "+gapless".
func Version() version.Info {
	info := version.Info{
		Major: "1", Minor: "37", GitVersion: "v" + KubernetesVersion + "+gapless", GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		info.GitVersion += "-" + strings.ReplaceAll(v, "+", ".") // a version may have only one "+"
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.GitCommit = s.Value
		case "vcs.time":
			info.BuildDate = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				info.GitTreeState = "dirty"
			}
		}
	}
	return info
}
