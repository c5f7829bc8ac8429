package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// status is gapless status.
func (p Program) status() *cobra.Command {
	var kubeconfig, context, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a relay mirrors, who reads it, and how far back it goes",
		Long: `Show what a relay mirrors: up to which resourceVersion, how far back watches can resume,
how many readers there are and to how many of them events are being sent, what they got without
the API server since the relay began (lists, watches from a resourceVersion, bytes), watches that got
410, and how often the API server was listed. The caller must be allowed to GET the path /relay/status.

It works while the API server is away, for a caller whose permission was confirmed not long before (see
--authorization-stale of gapless relay), and for a client certificate of the group system:masters.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return p.Usage(fmt.Errorf("--output %q: want json", output))
			}
			loading := clientcmd.NewDefaultClientConfigLoadingRules()
			loading.ExplicitPath = kubeconfig
			cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{
				CurrentContext: context,
			}).ClientConfig()
			if err != nil {
				return fmt.Errorf("read the kubeconfig: %w", err)
			}
			c, err := client.New(cfg)
			if err != nil {
				return err
			}
			return show(cmd.Context(), cmd.OutOrStdout(), c, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig file of a client of the relay (default $KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&context, "context", "", "context of the kubeconfig (default the current context)")
	flags.StringVarP(&output, "output", "o", "", "json: everything that the relay says")
	return cmd
}

// show prints the status of the relay that c reaches.
func show(ctx context.Context, out io.Writer, c *client.Client, output string) error {
	body, err := c.Get(ctx, gapless.RelayStatusPath, "application/json")
	if kube.Classify(err) == kube.OutcomeServerError {
		return fmt.Errorf("ask the relay: %w; while the API server is away, use a client certificate of the group system:masters",
			err)
	}
	if kube.Classify(err) == kube.OutcomeNotFound {
		return fmt.Errorf(
			"%w: this is no relay: gapless status shows what a gapless relay mirrors, and gapless serve has /readyz "+
				"and /metrics instead", err)
	}
	if err != nil {
		return fmt.Errorf("ask the relay: %w", err)
	}
	if output == "json" {
		_, err := out.Write(body)
		return err
	}
	var status gapless.RelayStatus
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("the answer of the relay: %w", err)
	}
	_, _ = fmt.Fprintf(out, "mirror of %s\n", status.Upstream)
	if status.Away != "" {
		_, _ = fmt.Fprintf(out, "which does not answer: %s\n", status.Away)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table,
		"RESOURCE\tRESOURCEVERSION\tOLDEST\tHISTORY\tOBJECTS\tREADERS\tBEHIND\tLISTS\tRESUMED\tSENT\t410S\tUPSTREAM-LISTS\tLAST-CONTACT\tPROBLEM")
	for _, r := range status.Resources {
		history := "all"
		if !r.OldestTime.IsZero() {
			history = ago(r.OldestTime)
		}
		expired := int64(0)
		for _, n := range r.Expired {
			expired += n
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%s\t%s\n",
			r.Resource, r.ResourceVersion, r.Oldest, history, r.Objects, r.Readers, r.Behind, r.ListsServed, r.WatchesResumed,
			bytes(r.BytesServed), expired, r.Lists, ago(r.LastContact), r.Problem)
	}
	return table.Flush()
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
