package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// historyFlags are those of gapless history.
type historyFlags struct {
	selecting

	since, until string
	limit        int
	diff         bool
	status       bool
	secrets      bool
	auditLog     string
	watch        bool
	output       string
}

func (p Program) history() *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history RESOURCE[/NAME]",
		Short: "Show who changed an object, when and what",
		Long: `Show the changes of an object, or of all objects of a resource, the newest first: when, who, and what.

The server must be gapless serve, one of its replicas, or a gapless relay, which knows what happened since it began to
mirror the resource. Who made a change is what managed fields tell; of a deletion they tell nothing. The audit log of the
server (--audit-log) has the users, too. Changes of the status alone are counted in one line, unless --status is set. The
values of Secrets are shown as their length and a hash, by which equal ones can be seen to be equal.

Times are read and shown in the local zone.`,
		Example: `  gapless history deployments/web

  # with what changed, since lunch
  gapless history deploy web --diff --since 12:30

  # from now on
  gapless history pods -A --since 0s --watch

  # all ConfigMaps of a namespace, in the last two hours, for jq
  gapless history configmaps -n shop --since 2h -o json | jq -r '.time + " " + .name'`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := parseNamed(args)
			return err
		},
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "",
		"only changes after: 14:05, 2h, 2026-11-25 14:05, a time in RFC 3339, or a resourceVersion")
	flags.StringVar(&f.until, "until", "", "only changes up to this time or resourceVersion")
	flags.IntVar(&f.limit, "limit", 0, "at most so many lines, the newest (default all)")
	flags.BoolVar(&f.diff, "diff", false, "show each change as a unified diff")
	flags.BoolVar(&f.status, "status", false, "show changes of the status alone, too, each in a line of its own")
	flags.BoolVar(&f.secrets, "show-secrets", false, "show the values of Secrets")
	flags.BoolVarP(&f.watch, "watch", "w", false, "show the oldest change first, and then each change as it happens")
	addAuditLog(flags, &f.auditLog)
	flags.StringVarP(&f.output, "output", "o", "", "output format: wide, json or yaml (default a table)")
	connect := p.Connect(cmd)
	cmd.ValidArgsFunction = p.completing(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := p.readHistory(cmd, &f)
		if err != nil {
			return err
		}
		s, err := p.open(connect)
		if err != nil {
			return err
		}
		defer s.client.CloseIdle()
		n, _ := parseNamed(args) // Args has
		t, err := s.find(cmd.Context(), n, &f.selecting)
		if err != nil {
			return fmt.Errorf("history of %s: %w", args[0], err)
		}
		return h.run(cmd.Context(), s, t)
	}
	return cmd
}

// readHistory reads the flags. Errors: usage errors.
func (p Program) readHistory(cmd *cobra.Command, f *historyFlags) (*history, error) {
	h := &history{program: p, flags: f, asked: asking{order: newestFirst}, lines: table{out: p.Out}}
	if !f.secrets {
		h.mask = past.NewMasker()
	}
	err := p.output(f.output, "wide", "json", "yaml")
	if err == nil {
		h.asked.after, err = p.moment("since", f.since)
	}
	if err == nil {
		h.asked.upTo, err = p.moment("until", f.until)
	}
	switch {
	case err != nil:
		return nil, err
	case f.watch && (f.limit != 0 || f.until != ""):
		return nil, p.Usage(errors.New("--watch has no end: leave out --limit and --until"))
	case f.watch && f.auditLog != "":
		return nil, p.Usage(
			errors.New("--audit-log is read once, and has nothing of what happens from now on: leave out --watch"))
	case f.limit < 0:
		return nil, p.Usage(errors.New("--limit cannot be negative; without it, or with 0, all changes are shown"))
	}
	if err := f.check(cmd); err != nil {
		return nil, p.Usage(err)
	}
	if f.watch {
		h.asked.order = oldestFirst
	}
	if h.asked.limit = f.limit; h.asked.limit > 0 && !f.status {
		h.asked.limit = pageSize // many changes may be in one line
	}
	return h, nil
}

// history prints the changes of a target.
type history struct {
	program Program
	flags   *historyFlags
	asked   asking
	target  target
	mask    *past.Masker // nil: Secrets are shown
	users   users
	lines   table
	printed int
	// status are changes of the status alone, which have no line yet.
	status folded
	oldest *change // of those that were looked at
	// after and upTo are what the pages cover that were printed.
	after, upTo kube.ResourceVersion
}

// errEnough ends a history of which no more is wanted.
var errEnough = errors.New("enough")

func (h *history) run(ctx context.Context, s *session, t target) error {
	h.target = t
	var err error
	if h.users, err = usersIn(h.flags.auditLog, t); err != nil {
		return err
	}
	var removed *kube.ExpiredError
	err = h.pages(ctx, s)
	if expired := kube.WhyExpired(err); expired != nil && !h.asked.after.IsZero() && h.oldest == nil {
		removed, h.asked.after = expired, past.Moment{}
		err = h.pages(ctx, s)
	}
	// The history may be compacted between two pages: what is left of it is asked for without its former beginning.
	for range 3 {
		if kube.WhyExpired(err) == nil || h.oldest == nil || !h.asked.after.IsZero() || h.asked.order != newestFirst {
			break
		}
		h.asked.upTo = past.Moment{RV: h.after}
		err = h.pages(ctx, s)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	if err != nil {
		return explained(h.program, s, t, err)
	}
	h.notes(removed)
	if h.flags.watch {
		return h.follow(ctx, s)
	}
	return nil
}

// notes says how far the history goes, where that is not clear from what was printed. removed is why not as far as was
// asked for.
func (h *history) notes(removed *kube.ExpiredError) {
	t := h.target
	if n := h.users.unnamed; n > 0 {
		h.program.notef("the audit log has %d changes of %s without saying which: deletions of large collections", n,
			t.resource.GroupResource())
	}
	switch {
	case removed != nil && !removed.OldestTime.IsZero():
		h.program.notef("the history of %s goes back to %s only: %s", t.resource.GroupResource(),
			h.program.shown(removed.OldestTime), removed.Why())
	case removed != nil:
		h.program.notef("the history of %s does not go back so far: %s", t.resource.GroupResource(), removed.Why())
	case h.oldest == nil && h.after == 0:
		h.program.notef("no change of %s is known", t)
	case h.oldest == nil:
		h.program.notef("no change of %s is known after resourceVersion %s", t, h.after)
	case t.name != "" && h.asked.after.IsZero() && (h.oldest.Type != added || h.oldest.Unseen):
		h.program.notef("what was before is not known: history begins after resourceVersion %s", h.after)
	}
}

// pages prints all pages.
func (h *history) pages(ctx context.Context, s *session) error {
	for page, err := range s.pages(ctx, h.target, h.asked) {
		if err != nil {
			return errors.Join(err, h.lines.flush())
		}
		if h.upTo == 0 || page.After < h.after {
			h.after = page.After
		}
		h.upTo = max(h.upTo, page.UpTo)
		for _, c := range page.Items {
			if err := h.change(c); err != nil {
				return err
			}
		}
		if err := h.lines.flush(); err != nil {
			return err
		}
	}
	if err := h.unfold(); err != nil {
		return err
	}
	return h.lines.flush()
}

// told is a change, what differs after it, and who made it.
type told struct {
	*change

	found []past.Difference
	by    []past.Author
	users []string // of the audit log
}

// tell compares the states before and after a change.
func (h *history) tell(c *change) told {
	of := told{change: c, users: h.users.of(c.ResourceVersion, c.Time)}
	if c.Type == modified {
		of.found = past.Compare(past.Quiet(h.mask.Mask(c.Previous)), past.Quiet(h.mask.Mask(c.Object)))
	}
	if c.Type != deleted {
		of.by = past.Authors(c.Previous, c.Object, of.found)
	}
	return of
}

// change prints one change, or counts it.
func (h *history) change(c *change) error {
	of := h.tell(c)
	if h.oldest == nil || c.ResourceVersion < h.oldest.ResourceVersion {
		h.oldest = c
	}
	if h.flags.output == "json" || h.flags.output == "yaml" {
		if err := h.document(of); err != nil {
			return err
		}
		return h.count()
	}
	if past.OnlyStatus(of.found) && !h.flags.status {
		h.status.add(of)
		return nil
	}
	if err := h.unfold(); err != nil {
		return err
	}
	h.line(of, h.target.objectOf(c), what(of, h.selects(), h.most()))
	if h.flags.diff {
		if err := h.unified(of); err != nil {
			return err
		}
	}
	return h.count()
}

// count ends the history when it has enough lines.
func (h *history) count() error {
	if h.printed++; h.printed == h.flags.limit {
		return errors.Join(errEnough, h.lines.flush())
	}
	return nil
}

// unfold prints the line of the changes of the status that were counted.
func (h *history) unfold() error {
	f := h.status
	if f.n == 0 {
		return nil
	}
	h.status = folded{}
	object := h.target.objectOf(f.newest.change)
	if f.others {
		object = "several objects"
	}
	f.newest.by, f.newest.users = f.by, f.users
	text := "a status change"
	if f.n > 1 {
		text = fmt.Sprintf("%d status changes, the first at %s", f.n, h.program.shown(f.oldest.Time))
	}
	h.line(f.newest, object, text)
	return h.count()
}

// folded are changes of the status alone, one after the other.
type folded struct {
	n              int
	newest, oldest told
	others         bool // of several objects
	by             []past.Author
	users          []string
}

func (f *folded) add(of told) {
	if f.n == 0 {
		f.newest = of
	}
	namespace, name := of.name()
	first, of1 := f.newest.name()
	f.others = f.others || namespace != first || name != of1
	if f.n == 0 || of.ResourceVersion < f.oldest.ResourceVersion {
		f.oldest = of
	}
	if of.ResourceVersion > f.newest.ResourceVersion {
		f.newest = of
	}
	f.n++
	for _, a := range of.by {
		if a.Time = (time.Time{}); !slices.Contains(f.by, a) {
			f.by = append(f.by, a)
		}
	}
	for _, user := range of.users {
		if !slices.Contains(f.users, user) {
			f.users = append(f.users, user)
		}
	}
}

// selects reports whether objects enter and leave what is shown without being created and deleted.
func (h *history) selects() bool { return h.target.labels != "" || h.target.fields != "" }

// most is how many differences a line has.
func (h *history) most() int {
	const some = 3
	if h.flags.output == "wide" {
		return 0
	}
	return some
}

// what says in a few words what a change did. With selects an object may enter or leave the selection.
func what(of told, selects bool, most int) string {
	if of.Type == deleted && of.Unseen {
		of.Unseen = false
		return what(of, selects, most) + " (found later)"
	}
	switch {
	case of.Type == added && of.Unseen:
		return "first seen"
	case of.Type == added && selects:
		return "created, or selected from then on"
	case of.Type == added:
		return "created"
	case of.Type == deleted && selects:
		return "deleted, or no longer selected"
	case of.Type == deleted:
		return "deleted"
	case of.Previous == nil:
		return "changed"
	}
	text := summary(of.found, of.Previous, of.Object, most)
	if text == "" {
		text = "only who manages which fields"
	}
	if of.Unseen {
		text += " (found later)"
	}
	return text
}

// summary says how two states differ, in one line.
func summary(found []past.Difference, before, after past.Tree, most int) string {
	if past.Text(before, "metadata", "uid") == past.Text(after, "metadata", "uid") {
		return past.Summary(found, most)
	}
	const again = "deleted and created again"
	others := slices.DeleteFunc(slices.Clone(found), func(d past.Difference) bool {
		path := d.Path.String()
		return path == "metadata.uid" || path == "metadata.creationTimestamp"
	})
	if len(others) == 0 {
		return again
	}
	return again + ": " + past.Summary(others, most)
}

// objectOf is the name of an object as tables have it.
func (t target) objectOf(c *change) string {
	namespace, name := c.name()
	if t.resource.Namespaced && t.of.Namespace == "" {
		name = namespace + "/" + name
	}
	return past.Printable(name)
}

// line adds a line to the table.
func (h *history) line(of told, object, text string) {
	if len(h.lines.widths)+len(h.lines.waiting) == 0 {
		h.lines.add(h.words(words{"TIME", "AGE", "RESOURCEVERSION", "NAME", "UID", "BY", "CHANGE"})...)
	}
	by := cmp.Or(byWhom(of.users, of.by), "-")
	p := h.program
	w := words{
		time: p.shown(of.Time), rv: of.ResourceVersion.String(), name: object, by: by, text: text,
		uid: past.Printable(past.Text(of.Object, "metadata", "uid")), age: duration.HumanDuration(p.Now().Sub(of.Time)),
	}
	if h.flags.output == "wide" {
		w.time = of.Time.In(p.Now().Location()).Format("2006-01-02T15:04:05.000Z07:00")
	}
	h.lines.add(h.words(w)...)
}

// words are what columns of a line may have.
type words struct{ time, age, rv, name, uid, by, text string }

// words are those of the columns that the table has.
func (h *history) words(w words) []string {
	all := []string{w.time, w.rv}
	if h.flags.output == "wide" {
		all = []string{w.time, w.age, w.rv}
	}
	if h.target.name == "" {
		all = append(all, w.name)
	}
	if h.flags.output == "wide" {
		all = append(all, w.uid)
	}
	return append(all, w.by, w.text)
}

// unified prints the unified diff of a change below its line.
func (h *history) unified(of told) error {
	diff, err := h.diffOf(of)
	if err != nil {
		return err
	}
	if err := h.lines.flush(); err != nil {
		return err
	}
	if len(diff) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(h.program.Out, "%s\n", h.program.colored(diff))
	return err
}

// diffOf is the unified diff of a change.
func (h *history) diffOf(of told) ([]byte, error) {
	before, after := of.Previous, of.Object
	switch of.Type {
	case added:
		before = nil
	case deleted:
		before, after = of.Object, nil
	}
	old, err := past.YAML(past.Quiet(h.mask.Mask(before)))
	if err != nil {
		return nil, err
	}
	text, err := past.YAML(past.Quiet(h.mask.Mask(after)))
	if err != nil {
		return nil, err
	}
	name := strings.Join([]string{h.target.resource.GroupResource().String(), h.target.objectOf(of.change)}, "/")
	return past.Unified(name+" before", name+" "+of.ResourceVersion.String(), old, text), nil
}
