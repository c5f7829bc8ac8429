package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// none is a list without objects.
func none(func(past.Tree, error) bool) {}

// merge compares two lists, of which it holds a page at a time.
func (d *comparing) merge(t target, from, to iter.Seq2[past.Tree, error]) error {
	before, stopBefore := iter.Pull2(from)
	defer stopBefore()
	after, stopAfter := iter.Pull2(to)
	defer stopAfter()
	old, hasOld, err := pull(before, nil)
	if err != nil {
		return err
	}
	now, hasNow, err := pull(after, nil)
	for err == nil && (hasOld || hasNow) {
		var was, is past.Tree
		oldKey, nowKey := keyOf(old), keyOf(now)
		if hasOld && (!hasNow || oldKey <= nowKey) {
			was = old
		}
		if hasNow && (!hasOld || nowKey <= oldKey) {
			is = now
		}
		if err = d.pair(t, was, is); err != nil {
			return err
		}
		if was != nil {
			if old, hasOld, err = pull(before, old); err != nil {
				return err
			}
		}
		if is != nil {
			now, hasNow, err = pull(after, now)
		}
	}
	return err
}

// pull takes the next object of a list. It must have a larger key than the one before it.
func pull(next func() (past.Tree, error, bool), last past.Tree) (o past.Tree, has bool, err error) {
	o, err, has = next()
	if err == nil && has && last != nil && keyOf(o) <= keyOf(last) {
		err = fmt.Errorf("the list is not in the order of keys: %s is behind %s", keyOf(o), keyOf(last))
	}
	return o, has, err
}

// errStopped ends the reading of a list whose reader has gone.
var errStopped = errors.New("stopped")

// list yields the objects at a moment, none: now. An error is the last thing that it yields.
func (d *comparing) list(ctx context.Context, t target, m past.Moment) iter.Seq2[past.Tree, error] {
	c := d.session.client
	if !m.IsZero() {
		c = d.session.when(m)
	}
	c = c.As(client.Form{Typed: true})
	return func(yield func(past.Tree, error) bool) {
		for o := (metav1.ListOptions{LabelSelector: t.labels, FieldSelector: t.fields, Limit: pageSize}); ; {
			meta, err := listPage(ctx, c, t.of, o, func(raw []byte) error {
				tree, err := past.Decode(raw)
				if err == nil && !yield(tree, nil) {
					err = errStopped
				}
				return err
			})
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if o.Continue = meta.Continue; o.Continue == "" {
				return
			}
		}
	}
}

// object compares two states of one object.
func (d *comparing) object(ctx context.Context, t target) error {
	before, err := d.state(ctx, t, d.from)
	if err != nil {
		return err
	}
	after, err := d.state(ctx, t, d.to)
	if err != nil {
		return err
	}
	return d.pair(t, before, after)
}

// state is an object at a moment; nil if it did not exist.
func (d *comparing) state(ctx context.Context, t target, m past.Moment) (past.Tree, error) {
	resp, err := d.answer(ctx, t, m)
	if errors.Is(err, errNotThen) || m.IsZero() && kube.Classify(err) == kube.OutcomeNotFound {
		return nil, nil //nolint:nilnil // no object is a state, too
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return past.Decode(raw)
}

// answer asks for an object at a moment, none: now. The caller closes the body.
func (d *comparing) answer(ctx context.Context, t target, m past.Moment) (*http.Response, error) {
	if m.IsZero() {
		return d.session.client.Do(ctx, client.Request{Path: t.path()})
	}
	return d.session.object(ctx, t, m, "")
}
