// Package past is the commands that show what was: gapless history, get, diff and blame.
//
// A [Program] is what the commands need of the program around them. A session asks a server for what
// docs/extensions.md calls the past: pages of changes, and states at a moment. It never takes an answer about the
// present for one about the past: other servers ignore the parameters that ask for it. Package internal/past compares
// what it gets.
package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
)

// connecting returns the server that flags name, and the namespace.
type connecting func() (cfg *rest.Config, namespace string, err error)

// Program is what the commands need of the program around them.
type Program struct {
	Out, Err io.Writer
	// Color reports that Out shows colours.
	Color bool
	// Usage marks an error as one of the command line.
	Usage func(error) error
	// Verdict ends the command with an exit code, without a message.
	Verdict func(code int) error
	// Connect adds the flags that name a server and a namespace to a command, and returns what reads them.
	Connect func(*cobra.Command) func() (cfg *rest.Config, namespace string, err error)
	// Now is the time, in the zone in which times are read and shown; nil: that of the system.
	Now func() time.Time
}

// Commands returns the commands.
func (p Program) Commands() []*cobra.Command {
	p = p.complete()
	return []*cobra.Command{p.history(), p.get(), p.diff(), p.blame()}
}

// complete returns p with the time of the system, if it has none.
func (p Program) complete() Program {
	if p.Now == nil {
		p.Now = time.Now
	}
	return p
}

// notef writes a message for people.
func (p Program) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Err, "# "+format+"\n", args...) // if it has gone, nobody reads it
}

// shown is a time as tables have it.
func (p Program) shown(t time.Time) string { return t.In(p.Now().Location()).Format(time.DateTime) }

// moment reads a flag that is a moment; an empty one is none. Errors: usage errors.
func (p Program) moment(flag, text string) (past.Moment, error) {
	if text == "" {
		return past.Moment{}, nil
	}
	m, err := past.ParseMoment(text, p.Now())
	if err != nil {
		return m, p.Usage(fmt.Errorf("--%s %w", flag, err))
	}
	return m, nil
}

// output checks the flag --output. Errors: usage errors.
func (p Program) output(value string, known ...string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return p.Usage(fmt.Errorf("--output %q: want one of %s", value, strings.Join(known, ", ")))
}

// selecting has the flags that select objects.
type selecting struct {
	allNamespaces  bool
	labels, fields string
}

// addTo adds the flags to a command.
func (s *selecting) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&s.labels, "selector", "l", "", "label selector, like app=web,tier!=test")
	flags.StringVar(&s.fields, "field-selector", "", "field selector, like status.phase=Running")
}

// check says what is wrong with the flags, for a command of which -n was given or not.
func (s *selecting) check(cmd *cobra.Command) error {
	if s.allNamespaces && cmd.Flags().Changed("namespace") {
		return errors.New("give one of --namespace and --all-namespaces")
	}
	if _, err := labels.Parse(s.labels); err != nil {
		return fmt.Errorf("--selector %q: %w", s.labels, err)
	}
	if _, err := fields.ParseSelector(s.fields); err != nil {
		return fmt.Errorf("--field-selector %q: %w", s.fields, err)
	}
	return nil
}

// named is a resource and the name of an object of it, "" for all, as kubectl has them: "deployments",
// "deploy/web" or "deploy web".
type named struct{ resource, name string }

// parseNamed reads arguments.
func parseNamed(args []string) (named, error) {
	const both = 2
	var n named
	switch {
	case len(args) == 0:
		return n, errors.New("name what is asked about, like deployments/web, or configmaps for all of them")
	case len(args) > both:
		return n, fmt.Errorf("name one object, or one resource, not %d words", len(args))
	}
	var slashed bool
	n.resource, n.name, slashed = strings.Cut(args[0], "/")
	if len(args) == both {
		if slashed {
			return n, fmt.Errorf("name one object: %s, or %s", args[0], args[1])
		}
		n.name = args[1]
	}
	if n.resource == "" || n.name == "" && (slashed || len(args) == both) {
		return n, fmt.Errorf("%q names no object: write deployments/web, or deployments for all of them", strings.Join(args, " "))
	}
	return n, nil
}

// target is what is asked about: an object, or a selection of a collection.
type target struct {
	resource       client.Resource
	of             client.Collection
	name           string
	labels, fields string
}

// String is like deployments.apps/web.
func (t target) String() string {
	if t.name == "" {
		return t.resource.GroupResource().String()
	}
	return t.resource.GroupResource().String() + "/" + t.name
}

// all is the objects of a resource that flags select.
func (s *session) all(r client.Resource, by *selecting) target {
	namespace := s.namespace
	if by.allNamespaces {
		namespace = ""
	}
	return target{resource: r, of: r.In(namespace), labels: by.labels, fields: by.fields}
}

// find finds what is asked about through discovery.
func (s *session) find(ctx context.Context, n named, by *selecting) (target, error) {
	r, err := s.client.ResourceFor(ctx, n.resource)
	if err != nil {
		return target{}, err
	}
	t := s.all(r, by)
	t.name = n.name
	switch {
	case n.name == "":
		return t, nil
	case by.labels != "" || by.fields != "":
		return t, errors.New("a selector is for the objects of a resource: leave it out, or the name")
	case by.allNamespaces && r.Namespaced:
		return t, fmt.Errorf("%s are in namespaces: name that of %s with -n instead of -A", r.GroupResource(), n.name)
	}
	return t, nil
}
