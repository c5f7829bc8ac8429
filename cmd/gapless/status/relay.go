package status

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gapless-io/gapless"
)

// printRelay prints the status of a relay.
func printRelay(out io.Writer, status gapless.RelayStatus) error {
	_, _ = fmt.Fprintf(out, "mirror of %s\n", status.Upstream)
	if status.Away != "" {
		_, _ = fmt.Fprintf(out, "which does not answer: %s\n", status.Away)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table,
		"RESOURCE\tRESOURCEVERSION\tOLDEST\tHISTORY\tOBJECTS\tREADERS\tBEHIND\tLISTS\tRESUMED\tSENT\t410S\t"+
			"UPSTREAM-LISTS\tLAST-CONTACT\tPROBLEM")
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
