package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// Exit codes of gapless diff, as diff has them.
const (
	exitDifferent = 1
	exitFailure   = 2
)

// diffFlags are those of gapless diff.
type diffFlags struct {
	selecting

	since, from, to string
	diff            bool
	status          bool
	secrets         bool
	output          string
}

func (p Program) diff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff [RESOURCE[/NAME]...] --since TIME",
		Short: "Show what is different from how it was",
		Long: `Show which objects were created, deleted and changed between two moments: of the resources that are named, or
of all that can be listed, besides Events and Leases.

The server must be gapless serve, one of its replicas, or a gapless relay. The status of objects is not compared unless
--status is set. The values of Secrets are shown as their length and a hash. Resources that the user may not list are
left out, which is reported.

Exit codes: 0 no differences, 1 differences, 2 failure.`,
		Example: `  # in this namespace, since an hour ago
  gapless diff --since 1h

  # what a deployment did, with the lines
  gapless diff deployments configmaps -n shop --from 14:00 --to 14:30 --diff

  # before going home: did anything change?
  gapless diff -A --since 09:00 >/dev/null || echo something`,
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "the same as --from, without --to")
	flags.StringVar(&f.from, "from", "",
		"compare with: 14:05, 2h (ago), 2026-11-25 14:05, a time in RFC 3339, or a resourceVersion")
	flags.StringVar(&f.to, "to", "", "compare how it was then, instead of now")
	flags.BoolVar(&f.diff, "diff", false, "show each object that changed as a unified diff")
	flags.BoolVar(&f.status, "status", false, "compare the status, too")
	flags.BoolVar(&f.secrets, "show-secrets", false, "show the values of Secrets")
	flags.StringVarP(&f.output, "output", "o", "", "output format: wide, json or yaml (default a table)")
	connect := p.Connect(cmd)
	cmd.ValidArgsFunction = p.completing(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := p.readDiff(cmd, &f)
		if err != nil {
			return err
		}
		asked, err := parseAll(args)
		if err != nil {
			return p.Usage(err)
		}
		different, err := d.run(cmd.Context(), connect, asked)
		switch {
		case err != nil && cmd.Context().Err() == nil:
			_, _ = fmt.Fprintf(p.Err, "error: %v\n", err) // 1 is not the code of an error here
			return p.Verdict(exitFailure)
		case err != nil:
			return err
		case different:
			return p.Verdict(exitDifferent)
		}
		return nil
	}
	return cmd
}

// readDiff reads the flags. Errors: usage errors.
func (p Program) readDiff(cmd *cobra.Command, f *diffFlags) (*comparing, error) {
	d := &comparing{program: p, flags: f, lines: table{out: p.Out}}
	if !f.secrets {
		d.mask = past.NewMasker()
	}
	if err := p.output(f.output, "wide", "json", "yaml"); err != nil {
		return nil, err
	}
	if err := f.check(cmd); err != nil {
		return nil, p.Usage(err)
	}
	switch {
	case f.since != "" && (f.from != "" || f.to != ""):
		return nil, p.Usage(errors.New("--since compares with now: give --from and --to instead"))
	case f.since == "" && f.from == "":
		return nil, p.Usage(errors.New("give --since or --from: what to compare with"))
	}
	var err error
	if d.from, err = p.moment("since", f.since); err == nil && f.from != "" {
		d.from, err = p.moment("from", f.from)
	}
	if err == nil {
		d.to, err = p.moment("to", f.to)
	}
	if err == nil && !d.to.At.IsZero() && d.from.At.After(d.to.At) {
		err = p.Usage(errors.New("--from is later than --to"))
	}
	return d, err
}

// parseAll reads arguments: resources and objects.
func parseAll(args []string) ([]named, error) {
	var all []named
	for _, arg := range args {
		n, err := parseNamed([]string{arg})
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// comparing compares states.
type comparing struct {
	program  Program
	flags    *diffFlags
	from, to past.Moment // to is none for now
	mask     *past.Masker
	session  *session
	lines    table

	added, removed, changed int
	// statusOnly is how many objects have another status, which is not compared.
	statusOnly int
}

// run compares, and reports whether there are differences.
func (d *comparing) run(ctx context.Context, connect connecting, asked []named) (bool, error) {
	s, err := d.program.open(connect)
	if err != nil {
		return false, err
	}
	defer s.client.CloseIdle()
	d.session = s
	targets, err := d.targets(ctx, asked)
	if err != nil {
		return false, err
	}
	var without, refused, later []string
	for _, t := range targets {
		err := d.target(ctx, t)
		switch some := len(asked) == 0 && len(without)+len(refused)+len(later)+1 < len(targets); {
		case err == nil:
		case some && kube.Classify(err) == kube.OutcomeForbidden:
			refused = append(refused, t.String())
		case some && errors.Is(err, errNoPast):
			without = append(without, t.String())
		case some && (errors.Is(err, errBegins) || kube.WhyExpired(err) != nil):
			later = append(later, t.String())
		default:
			return false, errors.Join(d.lines.flush(), fmt.Errorf("compare %s: %w", t, explained(d.program, s, t, err)))
		}
	}
	if err := d.lines.flush(); err != nil {
		return false, err
	}
	d.sum(without, refused)
	if len(later) > 0 { // others may differ: it is no success
		return false, fmt.Errorf("%w back so far, and is not compared, for %s; name resources to compare others only",
			errBegins, joined(later))
	}
	return d.added+d.removed+d.changed > 0, nil
}

// sum prints what was found in total, and what was left out.
func (d *comparing) sum(without, refused []string) {
	p := d.program
	if d.added+d.removed+d.changed == 0 {
		p.notef("no differences")
	} else {
		p.notef("%d added, %d removed, %d changed", d.added, d.removed, d.changed)
	}
	if d.statusOnly > 0 {
		p.notef("%d objects have another status only: --status compares it", d.statusOnly)
	}
	if len(refused) > 0 {
		p.notef("left out, as the user may not list them: %s", joined(refused))
	}
	if len(without) > 0 {
		p.notef("left out, as the server has no past of them: %s", joined(without))
	}
}

// errBegins is the error of a history that begins later than what is compared: what was before it is not known.
var errBegins = errors.New("history does not reach")

// joined are some names, and how many more there are.
func joined(names []string) string {
	const some = 5
	text := strings.Join(names[:min(some, len(names))], ", ")
	if more := len(names) - some; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// targets finds what is compared: what was asked about, or all resources.
func (d *comparing) targets(ctx context.Context, asked []named) ([]target, error) {
	var all []target
	for _, n := range asked {
		t, err := d.session.find(ctx, n, &d.flags.selecting)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(asked) > 0 {
		return all, nil
	}
	resources, err := d.session.client.Resources(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the resources: %w", err)
	}
	seen := map[string]bool{}
	for _, r := range resources { // of each the preferred version comes first
		name := r.GroupResource().String()
		if seen[name] || !isCompared(r) || !r.Namespaced && !d.flags.allNamespaces {
			continue
		}
		seen[name] = true
		all = append(all, d.session.all(r, &d.flags.selecting)) // which asks for no discovery again
	}
	return all, nil
}

// isCompared reports whether a resource that nobody named is compared: one without a watch has no past, and Events and
// Leases come and go.
func isCompared(r client.Resource) bool {
	switch r.GroupResource().String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
		return false
	}
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// target compares the states of one target: by its changes if one page has them all, otherwise by its lists.
func (d *comparing) target(ctx context.Context, t target) error {
	asked := asking{order: oldestFirst, after: d.from, upTo: d.to}
	page, err := d.session.page(ctx, t, asked.query(t))
	began := false
	if expired := kube.WhyExpired(err); expired != nil && expired.Reason == kube.ReasonDefinition {
		began, asked.after = true, past.Moment{} // there were no objects before the definition
		page, err = d.session.page(ctx, t, asked.query(t))
	}
	switch {
	case err != nil:
		return err
	case d.to.RV != 0 && page.UpTo > d.to.RV: // the server has none between them
		return errors.New("--from is later than --to")
	case slices.ContainsFunc(page.Gaps, func(g gap) bool { return g.After == 0 }):
		return fmt.Errorf("%w before resourceVersion %s", errBegins, page.Gaps[0].UpTo)
	case page.Metadata.Continue == "":
		return d.net(t, page)
	case t.name != "":
		return d.object(ctx, t)
	case began:
		return d.merge(t, none, d.list(ctx, t, d.to))
	}
	return d.merge(t, d.list(ctx, t, d.from), d.list(ctx, t, d.to))
}

// net compares the states before and after a page of changes, in the order of keys.
func (d *comparing) net(t target, p *page) error {
	before, after := map[string]past.Tree{}, map[string]past.Tree{}
	for _, c := range p.Items {
		key := keyOf(c.Object)
		if _, seen := after[key]; !seen {
			switch c.Type {
			case modified:
				before[key] = c.Previous
			case deleted:
				before[key] = c.Object
			case added:
			}
		}
		after[key] = c.Object
		if c.Type == deleted {
			after[key] = nil
		}
	}
	keys := make([]string, 0, len(after))
	for key := range after {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := d.pair(t, before[key], after[key]); err != nil {
			return err
		}
	}
	return nil
}

// keyOf is where an object is in lists: they are in the order of keys, byte by byte.
func keyOf(o past.Tree) string {
	namespace, name := past.Text(o, "metadata", "namespace"), past.Text(o, "metadata", "name")
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
