package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// started is the annotation that a command gets once its line was understood:
// every error before is one of usage.
const started = "gapless.started"

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "gapless",
		Short: "Kubernetes list-watch without gaps: an API server whose watches survive",
		Long: `gapless serves the Kubernetes API from one program, with a history that is kept
for hours and over restarts: a watch that comes back with an old resourceVersion
goes on where it was.

Every flag can also be set by an environment variable: GAPLESS_ and the flag's
name in upper case, with _ for -. A flag wins over its variable.

Exit codes: 0 success, 1 the command failed, 2 the command line is wrong.`,
		Example: `  gapless serve
  gapless watch pods -A
  gapless demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd); err != nil {
			return &usageError{err}
		}
		cmd.Annotations = map[string]string{started: "true"}
		return nil
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.AddCommand(newServe(io), newCompact(io), newWatch(io), newDemo(io), newVersion(io))
	return root
}

// noSuchCommand refuses whatever cobra took for an argument of the root.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // edits; cobra sets it only on its own path
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return fmt.Errorf("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
}

func hasStarted(cmd *cobra.Command) bool { return cmd.Annotations[started] != "" }

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "GAPLESS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that the command line left out.
func fromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(envName(f.Name))
		if !set || f.Changed || f.Name == "help" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			failed = fmt.Errorf("environment variable %s: %w", envName(f.Name), err)
		}
	})
	return failed
}
