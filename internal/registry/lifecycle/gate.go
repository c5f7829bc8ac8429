package lifecycle

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/wire"
)

// Gate lets an object be created while its namespace and its definition exist (upstream's
// plugin NamespaceLifecycle, and its handler of custom resources). It is safe for concurrent
// use.
type Gate struct {
	caches    *caches.Set
	creations creations
}

// NewGate returns the gate of the resources of a set.
func NewGate(set *caches.Set) *Gate { return &Gate{caches: set} }

// Enter begins the creation of an object. Without an error the caller calls leave when the
// object is committed or given up, maybe more than once: until then the Controller does not
// take the namespace or the definition for empty. Errors: 403 in a namespace under deletion,
// 404 without the namespace or the definition, 405 for a definition under deletion, those
// of Resource.Fresh.
func (g *Gate) Enter(ctx context.Context, t kinds.Target) (leave func(), err error) {
	leave = g.creations.begin() // before the look, so that the controller waits for it
	if err = g.checkDefinition(ctx, t.Resource); err == nil {
		err = g.checkNamespace(ctx, t)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// checkDefinition refuses an object whose definition was deleted, or is being deleted.
func (g *Gate) checkDefinition(ctx context.Context, resource *kinds.Resource) error {
	definitions := g.caches.Lookup(kinds.Definitions())
	if !resource.Custom || definitions == nil {
		return nil
	}
	definition, err := definitions.Find(ctx, wire.Key{Name: resource.GR().String()})
	switch {
	case err != nil:
		return err
	case definition == nil:
		return wire.NotFound(resource.GR(), "")
	case definition.Deleting():
		e := wire.MethodNotAllowed(resource.GR(), "create")
		// apiextensions customresource_handler.go.
		e.ErrStatus.Message = definitionEnds
		return e
	}
	return nil
}

const definitionEnds = "create not allowed while custom resource definition is terminating"

// ByUpdate is the error of Gate.Enter for an object that an update or apply creates: upstream
// refuses it later than a create, by admission, with 403 for a definition under deletion.
func ByUpdate(t kinds.Target, err error) error {
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Message == definitionEnds {
		return wire.Forbidden(t.Resource.GR(), t.Name, definitionEnds)
	}
	return err
}

// checkNamespace refuses an object whose namespace does not exist, or is being deleted.
func (g *Gate) checkNamespace(ctx context.Context, t kinds.Target) error {
	namespaces := g.caches.Lookup(kinds.Namespaces())
	if !t.Resource.Namespaced || t.Namespace == "" || namespaces == nil {
		return nil
	}
	ns, err := namespaces.Find(ctx, wire.Key{Name: t.Namespace})
	switch {
	case err != nil:
		return err
	case ns == nil:
		return wire.NotFound(kinds.Namespaces(), t.Namespace)
	case ns.Deleting():
		return terminating(t)
	}
	return nil
}

// terminating is 403 with the cause by which clients know it.
func terminating(t kinds.Target) error {
	e := wire.Forbidden(t.Resource.GR(), t.Name,
		fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", t.Namespace))
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    "NamespaceTerminating", // k8s.io/api core/v1 NamespaceTerminatingCause
		Message: fmt.Sprintf("namespace %s is being terminated", t.Namespace),
		Field:   "metadata.namespace",
	})
	return e
}
