package main

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/cmd/gapless/past"
)

// newPast returns the commands that show the past.
func newPast(io streams) []*cobra.Command {
	all := past.Program{
		Out: io.out, Err: io.err, Color: newScreen(io.out).colors,
		Usage:   func(err error) error { return &usageError{err} },
		Verdict: func(code int) error { return &verdict{code} },
		Connect: func(cmd *cobra.Command) func() (*rest.Config, string, error) {
			var c connection
			c.addTo(cmd)
			cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "namespace (default that of the context)")
			return c.restConfig
		},
	}.Commands()
	// Other commands have the variables.
	for _, cmd := range all {
		for _, name := range []string{"at", "from", "to"} {
			_ = cmd.Flags().SetAnnotation(name, withoutVariable, []string{"true"}) // it fails for flags that the command has not
		}
	}
	return all
}
