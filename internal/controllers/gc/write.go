package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// manager is the field manager of what the Collector writes; in a cluster it is part of
// kube-controller-manager.
const manager = "kube-controller-manager"

// delete deletes an object as it was read: another one of its name, or a later version,
// whose owners may be others, is 409.
func (c *Collector) delete(ctx context.Context, t kinds.Target, o *wire.Object, policy metav1.DeletionPropagation) error {
	if err := c.pace.wait(ctx); err != nil {
		return err
	}
	_, err := c.verbs.Delete(ctx, t, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: new(o.UID()), ResourceVersion: new(o.ResourceVersion().String())},
		PropagationPolicy: &policy,
	})
	switch {
	case isReason(err, metav1.StatusReasonNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %s, whose owners are gone: %w", t.Resource.Kind, o.Key(), err)
	}
	c.deleted.Add(1)
	c.logger.LogAttrs(ctx, slog.LevelDebug, "deleted an object whose owners are gone",
		slog.String("kind", t.Resource.Kind), slog.String("object", o.Key().String()),
		slog.String("propagation_policy", string(policy)))
	return nil
}

// patch changes members of metadata of an object as it was read; a later version is 409.
func (c *Collector) patch(ctx context.Context, i item, change map[string]any) error {
	o := i.object
	change["uid"], change["resourceVersion"] = o.UID(), o.ResourceVersion().String()
	body, err := json.Marshal(map[string]any{"metadata": change})
	if err != nil {
		return fmt.Errorf("encode a patch of %s %s: %w", i.target.Resource.Kind, o.Key(), err)
	}
	if err := c.pace.wait(ctx); err != nil {
		return err
	}
	_, err = c.verbs.Patch(ctx, i.target, wire.Patch{Type: types.MergePatchType, Body: body}, metav1.PatchOptions{
		FieldManager: manager,
	})
	switch {
	case isReason(err, metav1.StatusReasonNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("change the owners or finalizers of %s %s: %w", i.target.Resource.Kind, o.Key(), err)
	}
	c.released.Add(1)
	return nil
}

// report creates an Event, once, for an object that names as its owner an object of
// another namespace (GraphBuilder.reportInvalidNamespaceOwnerRef).
func (c *Collector) report(ctx context.Context, v *vertex, l view, i item, f finding) {
	if l.reported {
		return
	}
	for _, ref := range f.elsewhere {
		if !c.exists(ctx, ref) {
			continue
		}
		c.graph.noteReported(v)
		namespace := i.object.Key().Namespace
		message := fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, namespace, ref.Name, ref.UID, namespace)
		c.logger.LogAttrs(ctx, slog.LevelWarn, "an object names an owner of another namespace",
			slog.String("kind", i.target.Resource.Kind), slog.String("object", i.object.Key().String()),
			slog.String("why", message))
		if err := c.event(ctx, i, message); err != nil {
			c.logger.LogAttrs(ctx, slog.LevelDebug, "create an Event", slog.Any("err", err))
		}
		return
	}
}

// exists reports whether the owner that a reference names is in some namespace.
func (c *Collector) exists(ctx context.Context, ref ownerRef) bool {
	list, err := c.verbs.List(ctx, kinds.Target{Resource: ref.resource, AsStored: true}, wire.ListOptions{
		Labels: labels.Everything(), Fields: fields.OneTermEqualSelector("metadata.name", ref.Name), ResourceVersion: "0",
	})
	if err != nil {
		return false
	}
	for o, err := range list.Items {
		if err == nil && o.UID() == ref.UID {
			return true
		}
	}
	return false
}

// event creates a warning about an object, as client-go's recorder does.
func (c *Collector) event(ctx context.Context, i item, message string) error {
	resource, found := c.live.Load().Storage(kinds.GroupResource{Resource: "events"})
	if !found {
		return nil
	}
	key, now := i.object.Key(), time.Now()
	namespace := key.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	at := now.UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"name": fmt.Sprintf("%s.%x", key.Name, now.UnixNano()), "namespace": namespace},
		"involvedObject": map[string]any{
			"apiVersion": i.object.APIVersion(), "kind": i.object.Kind(), "namespace": key.Namespace, "name": key.Name,
			"uid": i.object.UID(),
		},
		"type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
		"source":         map[string]any{"component": "garbage-collector-controller"},
		"firstTimestamp": at, "lastTimestamp": at, "count": 1,
	})
	if err != nil {
		return err
	}
	_, err = c.verbs.Create(ctx, kinds.Target{Resource: resource, Namespace: namespace}, body, metav1.CreateOptions{
		FieldManager: manager,
	})
	return err
}
