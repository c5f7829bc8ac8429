package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless"
)

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			io.printf("%s", versionLine())
			return nil
		},
	}
}

// versionLine is the output of the command and of the flag.
func versionLine() string {
	v := gapless.Version()
	return fmt.Sprintf("gapless %s (%s, %s)\n", v.GitVersion, v.GoVersion, v.Platform)
}
