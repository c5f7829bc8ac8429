package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/faults"
	"github.com/gapless-io/gapless/cmd/gapless/inspect"
	"github.com/gapless-io/gapless/cmd/gapless/install"
	"github.com/gapless-io/gapless/cmd/gapless/memory"
	"github.com/gapless-io/gapless/cmd/gapless/relay"
)

// started is the annotation of a command whose command line is valid: every error
// before is a usage error.
const started = "gapless.started"

// Annotations of flags.
const (
	// byVariable is that of a flag that its environment variable has set.
	byVariable = "gapless.by-variable"
	// withoutVariable is that of a flag that none sets: the variable of its name is of another flag, with
	// values of another type.
	withoutVariable = "gapless.without-variable"
)

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "gapless",
		Short: "Kubernetes list-watch without gaps: an API server whose watches resume",
		Long: `gapless serves the Kubernetes API from one program. It keeps the history of all
objects for hours and across restarts: a watch that reconnects with an old
resourceVersion resumes where it stopped.

Every flag can also be set by an environment variable: GAPLESS_ followed by the
flag's name in upper case, with _ for -. A flag overrides its variable.

Exit codes: 0 success, 1 the command failed, 2 invalid command line. fsck and
diff have exit codes of their own.`,
		Example: `  gapless serve
  gapless watch pods -A
  gapless demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		Version:       gapless.Version().GitVersion,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd); err != nil {
			return &usageError{err}
		}
		if cmd.Annotations == nil {
			cmd.Annotations = map[string]string{}
		}
		cmd.Annotations[started] = "true"
		return nil
	}
	root.SetVersionTemplate(versionLine(gapless.Version()))
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.AddCommand(newServe(io), newCompact(io), newFsck(io), newWatch(io), newExport(io), newBackup(io), newRestore(io),
		newMigrate(io), newDemo(io), newVersion(io), newDescribe(io))
	connect := func(cmd *cobra.Command) func() (*rest.Config, error) {
		var c connection
		c.addTo(cmd)
		return func() (*rest.Config, error) {
			cfg, _, err := c.restConfig()
			return cfg, err
		}
	}
	usage := func(err error) error { return &usageError{err} }
	root.AddCommand(faults.Program{In: io.in, Out: io.out, Err: io.err, Usage: usage, Connect: connect}.Commands()...)
	root.AddCommand(inspect.Program{Usage: usage, Connect: connect}.Commands()...)
	root.AddCommand(relay.Program{
		Out: io.out, Err: io.err,
		Usage:  usage,
		Logger: func(format, level string) (*slog.Logger, error) { return newLogger(io, format, level) },
		Limits: limitFlags,
		Memory: memory.GiveBack,
		Debug: func(ctx context.Context, address string) (string, func(), error) {
			debug, err := startDebug(ctx, address)
			if err != nil {
				return "", nil, err
			}
			return debug.address(), debug.stop, nil
		},
	}.Command())
	root.AddCommand(newPast(io)...)
	root.AddCommand(install.Program{Out: io.out, Err: io.err, Usage: usage}.Command())
	if isPlugin(os.Args[0]) {
		callPlugin(root)
	}
	return root
}

// noSuchCommand rejects unknown commands, which cobra passes as arguments of the root.
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

// noArguments is for commands that have flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), strings.Join(args, " "))
}

func hasStarted(cmd *cobra.Command) bool { return cmd.Annotations[started] != "" }

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "GAPLESS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// otherVariables are those that no flag takes, whatever its name: the tests of this program and package processtest read
// them.
var otherVariables = []string{"GAPLESS_PROGRAM", "GAPLESS_TEST_AS_PROGRAM"} //nolint:gochecknoglobals // a table

// fromEnvironment sets the flags that are not on the command line. It warns about variables that no
// flag of any command has: they are misspelled, or of another version.
func fromEnvironment(cmd *cobra.Command) error {
	for _, name := range unknownVariables(cmd.Root(), os.Environ()) {
		cmd.PrintErrf("warning: the environment variable %s is not known: no flag of a gapless command has that name\n", name)
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(envName(f.Name))
		if !set || f.Changed || f.Name == "help" || f.Name == "version" || f.Annotations[withoutVariable] != nil ||
			slices.Contains(otherVariables, envName(f.Name)) || failed != nil {
			return
		}
		err := cmd.Flags().Set(f.Name, value)
		if err == nil {
			err = cmd.Flags().SetAnnotation(f.Name, byVariable, []string{"true"})
		}
		if err != nil {
			failed = fmt.Errorf("environment variable %s: %w", envName(f.Name), err)
		}
	})
	return failed
}

// isByVariable reports whether it is a variable that has set a flag.
func isByVariable(f *pflag.Flag) bool { return f.Annotations[byVariable] != nil }

// givenAs names a flag that was set, as the user knows it.
func givenAs(f *pflag.Flag) string {
	if isByVariable(f) {
		return "the variable " + envName(f.Name)
	}
	return "--" + f.Name
}

// namingVariables returns an error text that says, of each flag it names which a variable has set, that the user set the
// variable.
func namingVariables(cmd *cobra.Command, text string) string {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flag := "--" + f.Name
		if at := regexp.MustCompile(flag + `\b([^-]|$)`).FindStringIndex(text); at != nil && isByVariable(f) {
			end := at[0] + len(flag)
			text = text[:end] + " (set by the environment variable " + envName(f.Name) + ")" + text[end:]
		}
	})
	return text
}

// unknownVariables returns the variables of an environment that begin like those of flags, and are of none.
func unknownVariables(root *cobra.Command, environment []string) []string {
	known := slices.Clone(otherVariables)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, envName(f.Name)) })
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(root)
	var unknown []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "GAPLESS_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
