package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// object is an object that must exist.
type object struct {
	resource        kinds.GroupResource
	namespace, name string
	manager         string // who manages the fields; "": manager
	// led says that only the leader makes it, and while no others do (Config.Others).
	led bool
	// wanted is what to create if there is none, a struct of k8s.io/api; nil: nothing.
	wanted any
	// correct returns the corrected form of the existing object, nil if it is correct. An
	// error other than errReplace ends the attempt.
	correct func(there []byte) (any, error)
	// status does the same for the status of the object that is correct otherwise; nil: nothing is wanted of it.
	status func(there []byte) (any, error)
}

// errReplace says that an object cannot be corrected, but must be recreated.
var errReplace = errors.New("it has to be replaced")

// manager is who manages the fields that are written here, but for those of objects with a manager of their own.
const manager = "gapless"

// attempts bounds how often an object is read again after a conflict.
const attempts = 10

func (c *Controller) ensureOne(ctx context.Context, objects []object, name string) error {
	var errs []error
	for _, o := range objects {
		if o.name == name {
			errs = append(errs, c.ensure(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// ensure creates an object, or corrects the existing one.
func (c *Controller) ensure(ctx context.Context, o object) error {
	t := c.target(o.resource, o.namespace)
	if t.Resource == nil {
		return nil // a catalog without it: a test's
	}
	t.Name = o.name
	var err error
	for range attempts {
		if o.led {
			if others, err := c.leftToOthers(ctx); others || err != nil {
				return err
			}
		}
		if err = c.ensureNow(ctx, t, o); err == nil && o.status != nil {
			err = c.ensureStatus(ctx, t, o)
		}
		if err == nil || !isConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.resource, o.name, err)
	}
	return nil
}

// leftToOthers reports whether this Controller does not make what the leader makes.
func (c *Controller) leftToOthers(ctx context.Context) (bool, error) {
	switch {
	case c.others == nil:
		return false, nil
	case !c.running.Load():
		return true, nil
	}
	return c.others(ctx)
}

func (c *Controller) ensureNow(ctx context.Context, t kinds.Target, o object) error {
	there, err := c.verbs.Get(ctx, t, "")
	if isNotFound(err) && o.wanted != nil {
		return c.create(ctx, t, o)
	}
	if err != nil {
		return err
	}
	corrected, err := o.correct(there.JSON())
	switch {
	case errors.Is(err, errReplace):
		uid := there.UID()
		if _, err := c.verbs.Delete(ctx, t, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
			return err
		}
		return c.create(ctx, t, o)
	case err != nil || corrected == nil:
		return err
	}
	body, err := json.Marshal(corrected)
	if err != nil {
		return err
	}
	_, err = c.verbs.Update(ctx, t, body, metav1.UpdateOptions{FieldManager: cmp.Or(o.manager, manager)})
	return err
}

// ensureStatus corrects the status of an object.
func (c *Controller) ensureStatus(ctx context.Context, t kinds.Target, o object) error {
	there, err := c.verbs.Get(ctx, t, "")
	if err != nil {
		return err
	}
	corrected, err := o.status(there.JSON())
	if err != nil || corrected == nil {
		return err
	}
	body, err := json.Marshal(corrected)
	if err != nil {
		return err
	}
	t.Subresource = "status"
	_, err = c.verbs.Update(ctx, t, body, metav1.UpdateOptions{FieldManager: manager})
	return err
}

func (c *Controller) create(ctx context.Context, t kinds.Target, o object) error {
	body, err := json.Marshal(o.wanted)
	if err != nil {
		return err
	}
	t.Name = ""
	_, err = c.verbs.Create(ctx, t, body, metav1.CreateOptions{FieldManager: cmp.Or(o.manager, manager)})
	return err
}

// correction returns the member correct of an object: it decodes the existing object and
// calls change, which returns whether it changed it.
func correction[T any](change func(there *T) (changed bool, err error)) func([]byte) (any, error) {
	return func(there []byte) (any, error) {
		typed := new(T)
		if err := json.Unmarshal(there, typed); err != nil {
			return nil, err
		}
		changed, err := change(typed)
		if err != nil || !changed {
			return nil, err
		}
		return typed, nil
	}
}

func isNotFound(err error) bool { return hasReason(err, metav1.StatusReasonNotFound) }

// isConflict reports whether another writer was faster.
func isConflict(err error) bool {
	return hasReason(err, metav1.StatusReasonConflict) || hasReason(err, metav1.StatusReasonAlreadyExists)
}

func hasReason(err error, reason metav1.StatusReason) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == reason
}

// set sets a member of a map that may be nil, and reports whether that changed it.
func set(m *map[string]string, key, value string) (changed bool) {
	if was, has := (*m)[key]; has && was == value {
		return false
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
	return true
}
