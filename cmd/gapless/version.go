package main

import (
	"fmt"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless"
)

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			io.printf("%s", versionLine(gapless.Version()))
			return nil
		},
	}
}

// versionLine is the output of the command and of the flag. A program that was built outside of a checkout, as by go
// install, knows no commit.
func versionLine(v apiversion.Info) string {
	commit := ""
	if v.GitCommit != "" {
		state := ""
		if v.GitTreeState != "clean" {
			state = ", changed"
		}
		commit = fmt.Sprintf("commit %.12s%s of %s, ", v.GitCommit, state, v.BuildDate)
	}
	return fmt.Sprintf("gapless %s (%s%s, %s)\n", v.GitVersion, commit, v.GoVersion, v.Platform)
}
