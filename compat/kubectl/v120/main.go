// Command kubectl is kubectl 1.20, the oldest that the scripts beside it run, built from its
// own module.
package main

import (
	"os"

	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
