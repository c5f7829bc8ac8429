// Package faults is the commands that make requests fail: gapless fault and gapless proxy.
//
// A [Program] is what the commands need of the program around them.
package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
)

// Program is what the commands need of the program around them.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	// Connect adds the flags that name a server to a command, and returns what reads them.
	Connect func(*cobra.Command) func() (*rest.Config, error)
	// Usage marks an error as one of the command line.
	Usage func(error) error
}

// Commands returns the commands.
func (p Program) Commands() []*cobra.Command {
	parent := &cobra.Command{
		Use:   "fault",
		Short: "Make requests to a server fail, for tests",
		Long: `Make requests to a server fail, for tests: by rules that say which requests fail, and
how. The server is one that was started with gapless serve --enable-faults, or gapless
proxy. Only its administrators can change rules. docs/faults.md describes the actions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(p.add(), p.list(), p.remove(), p.clear())
	return []*cobra.Command{parent, p.proxy()}
}

// SeedFlag adds the flag --faults-seed to a command.
func SeedFlag(flags *pflag.FlagSet, seed *uint64) {
	flags.Uint64Var(seed, "faults-seed", 0,
		"seed by which rules with a probability choose requests, to repeat a run (default another one each "+
			"time, which is printed)")
}

// NewSet returns a set of rules with a seed, or with another one each time if that is 0.
func NewSet(seed uint64) *fault.Set {
	const most = 1_000_000_000 // easy to type
	if seed == 0 {
		seed = 1 + rand.Uint64N(most) //nolint:gosec // it is printed
	}
	return fault.New(seed)
}

// client returns the client for a command, which its flags name.
func (p Program) client(connect func() (*rest.Config, error)) (*control.Client, error) {
	cfg, err := connect()
	if err != nil {
		return nil, err
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	return &control.Client{URL: cfg.Host, HTTP: web}, nil
}

func (p Program) add() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "add [RULE ...] [-f FILE ...]",
		Short: "Add rules",
		Long: `Add rules behind those that there are. In one line, a rule is the name of an action and
KEY=VALUE behind commas. The keys are count, name, those of match (verbs, resources,
subresources, namespaces, names, userAgents, nth, every, probability, after, until), with |
between several values, and the parameters of the action. A file has one rule or a list of
them, as YAML or JSON; its rules come after those of the command line.`,
		Example: `  # the next watch of pods gets 410 Gone
  gapless fault add gone,verbs=watch,resources=pods,count=1

  # each third update of a deployment conflicts
  gapless fault add conflict,verbs=update,resources=deployments.apps,every=3

  gapless fault add -f rules.yaml`,
	}
	connect := p.Connect(cmd)
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with rules, or - for the standard input; can be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, err := p.read(args, files)
		if err != nil {
			return err
		}
		if len(rules) == 0 {
			return p.Usage(errors.New("give a rule, or a file with rules (-f)"))
		}
		c, err := p.client(connect)
		if err != nil {
			return err
		}
		defer c.HTTP.CloseIdleConnections()
		all, err := c.Add(cmd.Context(), rules...)
		if err != nil {
			return err
		}
		for _, e := range all[max(0, len(all)-len(rules)):] {
			_, _ = fmt.Fprintf(p.Out, "added %s\n", e.Name)
		}
		return nil
	}
	return cmd
}

// read reads the rules of a command line.
func (p Program) read(short, files []string) ([]fault.Rule, error) {
	var rules []fault.Rule
	for _, text := range short {
		r, err := fault.ParseShort(text)
		if err != nil {
			return nil, p.Usage(fmt.Errorf("%s: %w", text, err))
		}
		rules = append(rules, r)
	}
	for _, path := range files {
		text, err := p.file(path)
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
		of, err := fault.Parse(text)
		if err != nil {
			if path == "-" {
				path = "the standard input"
			}
			return nil, p.Usage(fmt.Errorf("%s: %w", path, err))
		}
		rules = append(rules, of...)
	}
	return rules, nil
}

func (p Program) file(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(p.In, fault.MaxRulesBytes+1))
	}
	return os.ReadFile(path)
}

func (p Program) list() *cobra.Command {
	var output string
	cmd := &cobra.Command{Use: "list", Short: "List the rules, with how often they matched and acted", Args: cobra.NoArgs}
	connect := p.Connect(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "format: json, or a table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "" && output != "json" {
			return p.Usage(fmt.Errorf("--output %q: want json, or nothing for a table", output))
		}
		c, err := p.client(connect)
		if err != nil {
			return err
		}
		defer c.HTTP.CloseIdleConnections()
		all, err := c.List(cmd.Context())
		if err != nil {
			return err
		}
		if output == "json" {
			e := json.NewEncoder(p.Out)
			e.SetIndent("", "  ")
			return e.Encode(all)
		}
		table := tabwriter.NewWriter(p.Out, 0, 0, 3, ' ', 0)
		_, _ = fmt.Fprintln(table, "NAME\tMATCHED\tACTED\tRULE")
		for _, e := range all {
			_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", e.Name, e.Matched, e.Acted, e.Rule)
			if e.Problem != "" {
				_, _ = fmt.Fprintf(p.Err, "%s: %s\n", e.Name, e.Problem)
			}
		}
		return table.Flush()
	}
	return cmd
}

func (p Program) remove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove NAME ...", Short: "Remove rules; what they do to requests that are under way ends",
		Args: cobra.MinimumNArgs(1),
	}
	connect := p.Connect(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		c, err := p.client(connect)
		if err != nil {
			return err
		}
		defer c.HTTP.CloseIdleConnections()
		for _, name := range names {
			if _, err := c.Remove(cmd.Context(), name); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(p.Out, "removed %s\n", name)
		}
		return nil
	}
	return cmd
}

func (p Program) clear() *cobra.Command {
	cmd := &cobra.Command{Use: "clear", Short: "Remove all rules", Args: cobra.NoArgs}
	connect := p.Connect(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.client(connect)
		if err != nil {
			return err
		}
		defer c.HTTP.CloseIdleConnections()
		return c.Clear(cmd.Context())
	}
	return cmd
}
