package serve

import (
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// Version returns what /version answers: a version of Kubernetes with the
// module's own version, or the commit it was built from, behind "+gapless".
func Version(major, minor, of string) version.Info {
	info := version.Info{
		Major: major, Minor: minor, GitVersion: "v" + of + "+gapless", GitTreeState: "clean",
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
