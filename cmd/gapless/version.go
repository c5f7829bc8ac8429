package main

import (
	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless"
)

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := gapless.Version()
			io.printf("gapless %s (%s, %s)\n", v.GitVersion, v.GoVersion, v.Platform)
			return nil
		},
	}
}
