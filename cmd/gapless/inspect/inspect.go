// Package inspect is the commands gapless status and gapless top: what a server, a replica of etcd, or a relay says about
// itself, once or live.
//
// A [Program] is what the commands need of the program around it. A source asks the server; what it answers becomes a
// report: lines, and tables that status prints and top shows, one at a time, sorted by a column.
package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/status"
)

// Program is what the commands need of the program around them.
type Program struct {
	// Connect adds the flags that name a server to a command, and returns what reads them.
	Connect func(*cobra.Command) func() (*rest.Config, error)
	// Usage marks an error as one of the command line.
	Usage func(error) error
}

// Commands returns the commands.
func (p Program) Commands() []*cobra.Command { return []*cobra.Command{p.status(), p.top()} }

// explained is what both commands show.
const explained = `Of each: its resources with their objects, bytes, and how far back their history goes, and what removed
what was before; the watches that are open, first those whose clients would get 410 first if they
connected again from what they know; the last watches that got 410, with the reason; how the disk does;
and what was refused to protect other clients.

Of a replica (gapless serve --etcd-servers) also: how far it is, the members of etcd and what is wrong
with them, and the other replicas with what each has reached. --server asks another replica than the
kubeconfig names. It works while etcd is away, once the replica has started.

Of a relay (gapless relay) also: up to which resourceVersion it mirrors each resource, and what its
readers got without the API server since it began (lists, watches from a resourceVersion, bytes). While
the API server is away it works for a caller whose permission was confirmed not long before (see
--authorization-stale of gapless relay), and for a client certificate of the group system:masters.

The caller must be allowed to GET the path /gapless/v1/status, of a relay /relay/status.`

// shownWatches is how many watches a table of status has, unless --watches says otherwise.
const shownWatches = 20

func (p Program) status() *cobra.Command {
	var output string
	var watches int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a server, a replica of etcd, or a relay",
		Long: "Show the state of a server, a replica of etcd, or a relay.\n\n" + explained +
			"\n\nSee gapless top for a live view.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "wide: more columns; json or yaml: everything that the server says")
	cmd.Flags().IntVar(&watches, "watches", shownWatches, fmt.Sprintf(
		"show at most so many watches; up to %d, which is the default of -o json and -o yaml", status.MostWatches))
	connect := p.Connect(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"", "wide", "json", "yaml"}, output) {
			return p.Usage(fmt.Errorf("--output %q: want one of wide, json, yaml", output))
		}
		if watches < 0 || watches > status.MostWatches {
			return p.Usage(fmt.Errorf("--watches %d: want a number from 0 to %d", watches, status.MostWatches))
		}
		if !cmd.Flags().Changed("watches") && output != "" && output != "wide" {
			watches = status.MostWatches
		}
		from, err := open(connect)
		if err != nil {
			return err
		}
		defer from.client.CloseIdle()
		return from.print(cmd.Context(), cmd.OutOrStdout(), watches, output)
	}
	return cmd
}

// open connects to the server that the flags name.
func open(connect func() (*rest.Config, error)) (*source, error) {
	cfg, err := connect()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &source{client: c}, nil
}

// print prints the status once, in a form of the flag --output.
func (s *source) print(ctx context.Context, out io.Writer, watches int, form string) error {
	body, err := s.ask(ctx, watches)
	if err != nil {
		return err
	}
	switch form {
	case "json":
		_, err = out.Write(body)
		return err
	case "yaml":
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		_, err = out.Write(text)
		return err
	}
	r, err := s.report(body, nil)
	if err != nil {
		return err
	}
	return r.print(out, form == "wide")
}

// print writes the lines and the tables that are not empty.
func (r *report) print(out io.Writer, wide bool) error {
	var text strings.Builder
	r.writeLines(&text)
	for _, t := range r.tables {
		if len(t.rows) > 0 {
			text.WriteString("\n")
			t.write(&text, wide)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// decoded reads an answer as a T.
func decoded[T any](body []byte) (T, error) {
	var of T
	if err := json.Unmarshal(body, &of); err != nil {
		return of, fmt.Errorf("read the status: %w", err)
	}
	return of, nil
}
