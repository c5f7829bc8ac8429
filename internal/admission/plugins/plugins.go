// Package plugins runs the admission plugins of kube-apiserver 1.37 that are compiled into it.
//
// A [Plugin] looks at writes of a few kinds. A [Set] is those that a server has, in upstream's order:
// it is an admission.Plugin, and finds in one step that none of them concerns a write. The packages
// below have the plugins, by what they look at. [Enabled] returns those that are on. A [Table] is the classes that
// plugins look up.
//
// Plugins read the cluster from memory, never over HTTP: what a client has written counts for the
// next write (decision 13).
package plugins

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster reads objects from memory, in the version in which they are stored.
type Cluster interface {
	// Find returns an object; nil when there is none.
	Find(gr kinds.GroupResource, key wire.Key) *wire.Object
	// UnknownOf returns an error that names an object of which nothing is known, because its value cannot be read:
	// of one name or ("") of any, in one namespace or ("") in any; nil if there is none.
	UnknownOf(gr kinds.GroupResource, namespace, name string) error
}

// Follower is a registry.Follower: it keeps what plugins look up.
type Follower interface {
	Follows() []kinds.GroupResource
	Replace(gr kinds.GroupResource, objects []*wire.Object)
	Change(gr kinds.GroupResource, o *wire.Object, deleted bool)
}

// Plugin is one of kube-apiserver's.
type Plugin struct {
	// Name is the name in --enable-admission-plugins.
	Name string
	// Concerns says about which writes it is asked.
	Concerns []Concern
	// Admit may change the object, in place, and calls Changed of the write if what it has put there may not be in the
	// form of its kind yet: known fields of their types, quantities as they are written, defaults. Validate looks at what
	// will be stored. Either may be nil. Their errors are answered as they are.
	Admit, Validate func(ctx context.Context, w *Write) error
	// Waits says that it may wait for others while it is asked. A write that it concerns keeps no turn meanwhile.
	Waits bool
	// Metrics are what the plugin counts; nil: nothing.
	Metrics prometheus.Collector
}

// Concern is writes of a resource, or of one of its subresources. Of [Everything] it is those of all of them.
type Concern struct {
	Resource    kinds.GroupResource
	Subresource string
	Operations  []upstream.Operation
	// Idle reports that the plugin has nothing to say of these writes at the moment, whatever they are, so that
	// they are not prepared for plugins; nil: it may always have.
	Idle func() bool
	// Waits is Plugin.Waits for these writes, at the moment; nil: it does not.
	Waits func() bool
}

// Everything is the resource of a Concern with writes of all resources, and of their subresources. A plugin has no
// other Concern of the same operation beside it.
var Everything = kinds.GroupResource{Group: "*", Resource: "*"} //nolint:gochecknoglobals // a constant

// Write is what a plugin is asked about.
type Write struct {
	upstream.Attributes
	// Object is what is to be stored, nil for a deletion. Old is what is stored, nil for a creation.
	Object, Old *unstructured.Unstructured

	changed bool
}

// Changed says that the plugin has changed the object, which is to be brought into the form of its kind.
func (w *Write) Changed() { w.changed = true }

// Set is plugins in the order in which they are asked. It is safe for concurrent use if they are.
type Set struct {
	concerned map[where][]concerned
	durations *prometheus.HistogramVec
}

// concerned is a plugin that some writes concern.
type concerned struct {
	*Plugin

	concern         *Concern
	admit, validate *timer
}

type where struct {
	resource    kinds.GroupResource
	subresource string
	op          upstream.Operation
}

var _ admission.Plugin = (*Set)(nil)

// NewSet returns a set of plugins in this order.
func NewSet(in ...Plugin) *Set {
	s := &Set{concerned: map[where][]concerned{}, durations: newDurations()}
	for _, p := range in {
		for _, c := range p.Concerns {
			for _, op := range c.Operations {
				s.add(concerned{&p, &c, s.timer(p.Name, "admit", op), s.timer(p.Name, "validate", op)},
					where{c.Resource, c.Subresource, op})
			}
		}
	}
	return s
}

// add adds a plugin behind the others that some writes concern: a place that others have too begins with those of all
// places.
func (s *Set) add(p concerned, at where) {
	if at.resource == Everything {
		for other, of := range s.concerned {
			if other.op == at.op && other != at {
				s.concerned[other] = append(slices.Clip(of), p)
			}
		}
	}
	s.concerned[at] = append(slices.Clip(s.at(at)), p)
}

// at returns the plugins that writes of a place concern.
func (s *Set) at(place where) []concerned {
	if of, has := s.concerned[place]; has {
		return of
	}
	return s.concerned[where{Everything, "", place.op}]
}

// Handles implements admission.Plugin.
func (s *Set) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return slices.ContainsFunc(s.at(where{r.GR(), subresource, op}), func(p concerned) bool {
		return p.concern.Idle == nil || !p.concern.Idle()
	})
}

// Waits implements admission.Plugin.
func (s *Set) Waits(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return slices.ContainsFunc(s.at(where{r.GR(), subresource, op}), func(p concerned) bool {
		return p.Waits || p.concern.Waits != nil && p.concern.Waits()
	})
}

// Admit implements admission.Plugin. What plugins have changed is brought into the form of its kind
// once, after the last of them.
func (s *Set) Admit(ctx context.Context, a upstream.Attributes, redo func() error) error {
	w, began := writeOf(a), time.Now()
	for _, p := range s.of(a) {
		if p.Admit == nil {
			continue
		}
		err := p.Admit(ctx, w)
		if began = p.admit.took(began, err); err != nil {
			return err
		}
	}
	if w.changed {
		return redo()
	}
	return checkForm(ctx, w)
}

// Validate implements admission.Plugin.
func (s *Set) Validate(ctx context.Context, a upstream.Attributes) error {
	w, began := writeOf(a), time.Now()
	for _, p := range s.of(a) {
		if p.Validate == nil {
			continue
		}
		err := p.Validate(ctx, w)
		if began = p.validate.took(began, err); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) of(a upstream.Attributes) []concerned {
	return s.at(where{a.GetResource().GroupResource(), a.GetSubresource(), a.GetOperation()})
}

func writeOf(a upstream.Attributes) *Write {
	w := &Write{Attributes: a}
	w.Object, _ = a.GetObject().(*unstructured.Unstructured)
	w.Old, _ = a.GetOldObject().(*unstructured.Unstructured)
	return w
}
