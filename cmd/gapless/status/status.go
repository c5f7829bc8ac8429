// Package status is the command gapless status: what a relay, or a replica of etcd, says about itself.
//
// A [Program] is what the command needs of the program around it.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// Program is what the command needs of the program around it.
type Program struct {
	// Connect adds the flags that name a server to a command, and returns what reads them.
	Connect func(*cobra.Command) func() (*rest.Config, error)
	// Usage marks an error as one of the command line.
	Usage func(error) error
}

// Command returns the command.
func (p Program) Command() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a relay, or of a replica of etcd",
		Long: `Show the state of a relay (gapless relay) or of a replica (gapless serve --etcd-servers).

Of a relay: what it mirrors, up to which resourceVersion, how far back watches can resume,
how many readers there are and to how many of them events are being sent, what they got without
the API server since the relay began (lists, watches from a resourceVersion, bytes), watches that got
410, and how often the API server was listed. The caller must be allowed to GET the path /relay/status.
It works while the API server is away, for a caller whose permission was confirmed not long before (see
--authorization-stale of gapless relay), and for a client certificate of the group system:masters.

Of a replica: how far it is, how far back its history goes, the members of etcd and what is wrong with
them, and the other replicas with what each has reached. The caller must be allowed to GET the path
/gapless/v1/status. It works while etcd is away, once the replica has started. --server asks another
replica than the kubeconfig names.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json: everything that the server says")
	connect := p.Connect(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "" && output != "json" {
			return p.Usage(fmt.Errorf("--output %q: want json", output))
		}
		cfg, err := connect()
		if err != nil {
			return err
		}
		c, err := client.New(cfg)
		if err != nil {
			return err
		}
		return show(cmd.Context(), cmd.OutOrStdout(), c, output)
	}
	return cmd
}

// show prints the status of the server that c reaches.
func show(ctx context.Context, out io.Writer, c *client.Client, output string) error {
	// A relay passes paths that it does not know on to its upstream, which may be a replica.
	body, err := c.Get(ctx, gapless.RelayStatusPath, "application/json")
	printed := func() error { return printAs(out, body, printRelay) }
	if outcome := kube.Classify(err); outcome == kube.OutcomeNotFound || outcome == kube.OutcomeForbidden {
		var second error
		body, second = c.Get(ctx, gapless.ReplicaStatusPath, "application/json")
		if kube.Classify(second) != kube.OutcomeNotFound {
			err = second
		}
		printed = func() error { return printAs(out, body, printReplica) }
	}
	switch {
	case kube.Classify(err) == kube.OutcomeNotFound:
		return fmt.Errorf("%w: this is neither a relay nor a replica of etcd: gapless status shows what a gapless relay "+
			"mirrors, or the state of gapless serve --etcd-servers; other servers have /readyz and /metrics", err)
	case kube.Classify(err) == kube.OutcomeServerError:
		return fmt.Errorf("ask the server for its status: %w; a server that is starting has none yet (see /readyz); while the "+
			"API server behind a relay is away, use a client certificate of the group system:masters", err)
	case err != nil:
		return fmt.Errorf("ask the server for its status: %w", err)
	case output == "json":
		_, err := out.Write(body)
		return err
	}
	return printed()
}

// printAs prints an answer that is a T.
func printAs[T any](out io.Writer, body []byte, as func(io.Writer, T) error) error {
	var status T
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("read the status: %w", err)
	}
	return as(out, status)
}

// bytes is a number of bytes as people read it.
func bytes(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprint(n, "B")
	}
	of, unit := float64(n)/step, 0
	for ; of >= step && unit < len("kMGT")-1; unit++ {
		of /= step
	}
	return fmt.Sprintf("%.1f%cB", of, "kMGT"[unit])
}

// ago is how long ago something was, as kubectl shows it; "never" for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return duration.HumanDuration(time.Since(t))
}
