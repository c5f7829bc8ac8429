package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// described is a command as gapless describe prints it. tools/dist makes the man pages of it: the library for them is
// not in the program.
type described struct {
	Use      string          `json:"use"`
	Short    string          `json:"short"`
	Long     string          `json:"long,omitempty"`
	Example  string          `json:"example,omitempty"`
	Flags    []describedFlag `json:"flags,omitempty"`
	Commands []described     `json:"commands,omitempty"`
}

// describedFlag is a flag of a command.
type describedFlag struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`
	Default   string `json:"default,omitempty"`
	// Bare is the value that the flag has when it is given without one; "": it needs one.
	Bare  string `json:"bare,omitempty"`
	Usage string `json:"usage"`
}

func newDescribe(io streams) *cobra.Command {
	return &cobra.Command{
		Use:    "describe",
		Short:  "Print all commands with their flags, in JSON, as input for man pages",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := json.MarshalIndent(describeCommand(cmd.Root()), "", " ")
			if err != nil {
				return err
			}
			io.printf("%s\n", body)
			return nil
		},
	}
}

// describeCommand returns a command with those below it that are not hidden.
func describeCommand(cmd *cobra.Command) described {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	d := described{Use: cmd.Use, Short: cmd.Short, Long: cmd.Long, Example: cmd.Example}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			d.Flags = append(d.Flags, describedFlag{
				Name: f.Name, Shorthand: f.Shorthand, Type: f.Value.Type(), Default: f.DefValue, Bare: f.NoOptDefVal,
				Usage: f.Usage,
			})
		}
	})
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() && below.Name() != "help" {
			d.Commands = append(d.Commands, describeCommand(below))
		}
	}
	return d
}
