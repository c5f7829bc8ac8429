package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// blameFlags are those of gapless blame.
type blameFlags struct {
	selecting // none has a flag

	at       string
	status   bool
	secrets  bool
	output   string
	auditLog string
}

func (p Program) blame() *cobra.Command {
	var f blameFlags
	cmd := &cobra.Command{
		Use:   "blame RESOURCE/NAME",
		Short: "Show who set each line of an object, and when",
		Long: `Show an object as YAML, with the change that set the value in each line: when it was, and who made it.

The server must be gapless serve, one of its replicas, or a gapless relay. What was set before its history is marked so,
with the manager whose field it was by the managed fields of then. The audit log of the server (--audit-log) has the users,
too. The values of Secrets are shown as their length and a hash.`,
		Example: `  gapless blame deployments/web

  # as it was before lunch, with the status
  gapless blame deploy web --at 12:00 --status`,
		Args: func(_ *cobra.Command, args []string) error {
			n, err := parseNamed(args)
			if err == nil && n.name == "" {
				err = fmt.Errorf("name an object, like %s/web", n.resource)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.at, "at", "",
		"as it was at: 14:05, 2h (ago), 2026-11-25 14:05, a time in RFC 3339, or a resourceVersion (default now)")
	flags.BoolVar(&f.status, "status", false, "show the status, too")
	flags.BoolVar(&f.secrets, "show-secrets", false, "show the values of Secrets")
	addAuditLog(flags, &f.auditLog)
	flags.StringVarP(&f.output, "output", "o", "", "output format: wide, json or yaml (default the object with columns in front)")
	connect := p.Connect(cmd)
	cmd.ValidArgsFunction = p.completing(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := p.output(f.output, "wide", "json", "yaml")
		if err != nil {
			return err
		}
		m, err := p.moment("at", f.at)
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
		if err == nil {
			b := blaming{program: p, flags: &f, session: s, target: t}
			err = explained(p, s, t, b.run(cmd.Context(), m))
		}
		if err != nil {
			return fmt.Errorf("blame %s/%s: %w", n.resource, n.name, err)
		}
		return nil
	}
	return cmd
}

// blaming prints an object with the changes that set it.
type blaming struct {
	program Program
	flags   *blameFlags
	session *session
	target  target
	known   past.Blame
	users   users
}

func (b *blaming) run(ctx context.Context, upTo past.Moment) error {
	var err error
	if b.users, err = usersIn(b.flags.auditLog, b.target); err != nil {
		return err
	}
	for page, err := range b.session.pages(ctx, b.target, asking{order: oldestFirst, upTo: upTo}) {
		if err != nil {
			return err
		}
		for _, c := range page.Items {
			b.take(c)
		}
	}
	if !b.known.Found() {
		if err := b.unchanged(ctx, upTo); err != nil {
			return err
		}
	}
	if !b.known.Exists() {
		return fmt.Errorf("it was deleted before %s: name an earlier time with --at; gapless history %s shows when it existed",
			upTo, b.target)
	}
	lines, err := b.known.Lines(b.shown())
	if err != nil {
		return err
	}
	return b.print(lines)
}

// take takes the next version.
func (b *blaming) take(c *change) {
	b.known.Take(&past.Event{
		Type: c.Type, ResourceVersion: c.ResourceVersion, Time: c.Time, Object: c.Object, Previous: c.Previous, Unseen: c.Unseen,
	})
}

// unchanged takes an object that has not changed since history began.
func (b *blaming) unchanged(ctx context.Context, m past.Moment) error {
	ask := func() (io.ReadCloser, error) {
		if !m.IsZero() {
			resp, err := b.session.object(ctx, b.target, m, "")
			if err != nil {
				return nil, err
			}
			return resp.Body, nil
		}
		resp, err := b.session.client.Do(ctx, client.Request{Path: b.target.path()})
		if kube.Classify(err) == kube.OutcomeNotFound {
			return nil, errors.New("there is no such object, and none is in the history")
		}
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	body, err := ask()
	if err != nil {
		return err
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	tree, err := past.Decode(raw)
	if err != nil {
		return err
	}
	b.target.typed(tree)
	b.known.Begin(tree)
	return nil
}

// shown returns what makes of the object what is shown.
func (b *blaming) shown() func(past.Tree) past.Tree {
	var mask *past.Masker
	if !b.flags.secrets {
		mask = past.NewMasker()
	}
	return func(tree past.Tree) past.Tree {
		if !b.flags.status {
			tree = past.WithoutStatus(tree)
		}
		return mask.Mask(tree)
	}
}

// blamed is a line, as -o json and -o yaml print it. A line that only begins an object has no change.
type blamed struct {
	Line            string                `json:"line"`
	ResourceVersion *kube.ResourceVersion `json:"resourceVersion,omitempty,string"`
	Time            *time.Time            `json:"time,omitempty"`
	By              []past.Author         `json:"by,omitempty"`
	Users           []string              `json:"users,omitempty"`
	BeforeHistory   bool                  `json:"beforeHistory,omitempty"`
}

// print prints the lines.
func (b *blaming) print(lines []past.Line) error {
	if b.flags.output == "json" || b.flags.output == "yaml" {
		for _, l := range lines {
			if err := b.program.document(b.blamed(l), b.flags.output); err != nil {
				return err
			}
		}
		return nil
	}
	t := table{out: b.program.Out}
	for _, l := range lines {
		t.add(b.words(l)...)
	}
	return t.flush()
}

func (b *blaming) blamed(l past.Line) blamed {
	out := blamed{Line: l.Text, BeforeHistory: l.Field && l.Version == nil}
	if l.Version != nil {
		at := l.Version.Time.In(b.program.Now().Location())
		out.ResourceVersion, out.Time, out.By = &l.Version.ResourceVersion, &at, l.Version.By
		out.Users = b.users.of(l.Version.ResourceVersion, l.Version.Time)
	}
	if l.Before != nil {
		out.By = []past.Author{*l.Before}
	}
	return out
}

// words are the columns of a line.
func (b *blaming) words(l past.Line) []string {
	when, rv, by := "", "", ""
	switch {
	case l.Version != nil:
		when, rv = b.program.shown(l.Version.Time), l.Version.ResourceVersion.String()
		by = byWhom(b.users.of(l.Version.ResourceVersion, l.Version.Time), l.Version.By)
	case l.Field:
		when = "before history"
	}
	if l.Before != nil {
		by = l.Before.String()
	}
	if b.flags.output == "wide" {
		return []string{when, rv, by, "| " + l.Text}
	}
	return []string{when, by, "| " + l.Text}
}
