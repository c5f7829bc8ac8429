package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// pluginName is what the program is called by for kubectl to run it as "kubectl gapless".
const pluginName = "kubectl-gapless"

// isPlugin reports whether the program was called as a plugin of kubectl.
func isPlugin(path string) bool {
	return strings.TrimSuffix(filepath.Base(path), ".exe") == pluginName
}

// callPlugin has usage and examples show the commands as kubectl runs them.
func callPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gapless"}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Example = strings.ReplaceAll("\n"+cmd.Example, "\n  gapless ", "\n  kubectl gapless ")[1:]
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(root)
}
