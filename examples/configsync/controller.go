package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

// controller has the clients and informers.
type controller struct {
	core    *rest.RESTClient
	custom  dynamic.ResourceInterface
	maps    *informer.Informer[*corev1.ConfigMap]
	byLabel *informer.Index[*corev1.ConfigMap, string]
	orders  *informer.Informer[*configCopy]
}

// reconcile creates and deletes the copies of one ConfigCopy.
func (c *controller) reconcile(ctx context.Context, key informer.Key) error {
	if err := c.maps.WaitSynced(ctx); err != nil {
		return err // before, existing copies are unknown
	}
	order, found := c.orders.Get(key)
	if !found {
		return c.clear(ctx, key.Name, nil)
	}
	from, is := c.maps.Get(informer.Key(order.Spec.Source))
	if !is {
		return c.report(ctx, order, status{Problem: "the source does not exist"}) // the copies stay
	}
	errs := []error{c.clear(ctx, key.Name, order.Spec.Namespaces)}
	for _, namespace := range order.Spec.Namespaces { // one that cannot be written does not hold up the others
		errs = append(errs, c.put(ctx, from, informer.Key{Namespace: namespace, Name: key.Name}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.report(ctx, order, status{Copies: len(order.Spec.Namespaces)})
}

// clear deletes the copies of that name that are not in one of the namespaces.
func (c *controller) clear(ctx context.Context, name string, namespaces []string) error {
	for key, m := range c.byLabel.Get(name) {
		if key.Name == name && slices.Contains(namespaces, key.Namespace) {
			continue
		}
		this := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))}
		deletion := c.core.Delete().Resource("configmaps").Namespace(key.Namespace).Name(key.Name).Body(&this)
		if err := deletion.Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// put creates or updates one copy, and waits until the cache has it.
func (c *controller) put(ctx context.Context, from *corev1.ConfigMap, to informer.Key) error {
	request, now := c.core.Post(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: to.Name, Labels: map[string]string{label: to.Name}},
	}
	if old, is := c.maps.Get(to); is && old.Labels[label] != to.Name {
		return fmt.Errorf("configmap %s is not a copy for %s", to, to.Name)
	} else if is && maps.Equal(old.Data, from.Data) && maps.EqualFunc(old.BinaryData, from.BinaryData, bytes.Equal) {
		return nil
	} else if is {
		request, now = c.core.Put().Name(to.Name), old.DeepCopy()
	}
	now.Data, now.BinaryData = from.Data, from.BinaryData
	var written corev1.ConfigMap // not now, whose data is the cache's
	if err := request.Resource("configmaps").Namespace(to.Namespace).Body(now).Do(ctx).Into(&written); err != nil {
		return err // a conflict too: this ConfigCopy is retried with the newest state
	}
	return c.maps.WaitRevision(ctx, written.ResourceVersion)
}

// report writes the status, and waits until the cache has it.
func (c *controller) report(ctx context.Context, order *configCopy, s status) error {
	if order.Status == s {
		return nil
	}
	patch := fmt.Appendf(nil, `{"status":{"copies":%d,"problem":%q}}`, s.Copies, s.Problem)
	written, err := c.custom.Patch(ctx, order.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		err = c.orders.WaitRevision(ctx, written.GetResourceVersion())
	}
	return err
}
