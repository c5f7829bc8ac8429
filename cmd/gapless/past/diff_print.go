package past

import (
	"fmt"

	"github.com/gapless-io/gapless/internal/past"
)

// difference is an object that differs, as -o json and -o yaml print it.
type difference struct {
	Change    past.Kind `json:"change"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Changes   []field   `json:"changes,omitempty"`
	Diff      string    `json:"diff,omitempty"`
	Before    past.Tree `json:"before,omitempty"`
	After     past.Tree `json:"after,omitempty"`
}

// pair compares two states of an object, nil where there is none, and prints the difference.
func (d *comparing) pair(t target, before, after past.Tree) error {
	if before == nil && after == nil {
		return nil // it came and went in between
	}
	t.typed(before)
	t.typed(after)
	before, after = d.comparable(before), d.comparable(after)
	of := difference{Change: past.Changed, Resource: t.resource.GroupResource().String(), Before: before, After: after}
	var text string
	switch {
	case before == nil:
		of.Change, text = past.Added, "added"
	case after == nil:
		of.Change, text = past.Removed, "removed"
	default:
		found := past.Compare(before, after)
		if !d.flags.status {
			if past.OnlyStatus(found) {
				d.statusOnly++
				return nil
			}
			found = withoutStatus(found)
		}
		if len(found) == 0 {
			return nil
		}
		of.Changes = fieldsOf(found)
		text = summary(found, before, after, d.most())
	}
	switch of.Change {
	case past.Added:
		d.added++
	case past.Removed:
		d.removed++
	case past.Changed, past.Reordered:
		d.changed++
	}
	return d.print(t, of, text)
}

// comparable is what of a state is compared.
func (d *comparing) comparable(o past.Tree) past.Tree {
	if o == nil {
		return nil
	}
	return past.Quiet(d.mask.Mask(o))
}

// withoutStatus are the differences outside of the status.
func withoutStatus(found []past.Difference) []past.Difference {
	for i, f := range found { // the status is last
		if f.Path.OfStatus() {
			return found[:i]
		}
	}
	return found
}

// most is how many differences a line has.
func (d *comparing) most() int {
	const some = 3
	if d.flags.output == "wide" {
		return 0
	}
	return some
}

// print prints one difference.
func (d *comparing) print(t target, of difference, text string) error {
	o := of.After
	if o == nil {
		o = of.Before
	}
	of.Namespace, of.Name = past.Text(o, "metadata", "namespace"), past.Text(o, "metadata", "name")
	diff, err := d.unified(of)
	if err != nil {
		return err
	}
	switch d.flags.output {
	case "json", "yaml":
		of.Diff = string(diff)
		return d.program.document(of, d.flags.output)
	}
	if len(d.lines.widths)+len(d.lines.waiting) == 0 {
		d.lines.add("OBJECT", "CHANGE")
	}
	d.lines.add(past.Printable(of.object(t)), text)
	if len(diff) == 0 && len(d.lines.waiting) < pageSize { // they get columns of the same width
		return nil
	}
	if err := d.lines.flush(); err != nil {
		return err
	}
	if len(diff) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(d.program.Out, "%s\n", d.program.colored(diff))
	return err
}

// object is like configmaps/shop/settings, without the namespace if there is only one.
func (of difference) object(t target) string {
	if of.Namespace == "" || t.of.Namespace != "" {
		return of.Resource + "/" + of.Name
	}
	return of.Resource + "/" + of.Namespace + "/" + of.Name
}

// unified is the unified diff of a difference, if it was asked for.
func (d *comparing) unified(of difference) ([]byte, error) {
	if !d.flags.diff {
		return nil, nil
	}
	var texts [2][]byte
	for i, o := range []past.Tree{of.Before, of.After} {
		if o != nil && !d.flags.status {
			o = past.WithoutStatus(o)
		}
		var err error
		if texts[i], err = past.YAML(o); err != nil {
			return nil, err
		}
	}
	name := of.Resource + "/" + of.Name
	if of.Namespace != "" {
		name = of.Resource + "/" + of.Namespace + "/" + of.Name
	}
	return past.Unified(past.Printable(name)+" "+d.from.String(), past.Printable(name)+" "+d.to.String(), texts[0], texts[1]), nil
}
