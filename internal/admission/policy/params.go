package policy

import (
	"errors"
	"fmt"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// params are the parameters of one evaluation; object is nil where a policy or its binding
// has none.
type params struct{ object runtime.Object }

// name returns the key of the object.
func (p *params) name() wire.Key {
	u, is := p.object.(*unstructured.Unstructured)
	if !is {
		return wire.Key{}
	}
	return wire.Key{Namespace: u.GetNamespace(), Name: u.GetName()}
}

// paramsOf returns the resource of a policy's parameters; nil if it has none.
func (p *Plugin) paramsOf(d *definition) (*kinds.Resource, error) {
	if d.paramKind == nil {
		return nil, nil //nolint:nilnil // no kind is one of the answers
	}
	for _, r := range p.live.Load().Resources() {
		if r.GVK() == d.params && r.StorageVersion != "" || r.GVK() == d.params && r.Conversion != nil {
			return r, nil
		}
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", d.params)
}

// collect returns the parameters that a binding names, one for each evaluation (apiserver
// policy/generic CollectParams). There are none if it names none that exist and allows that.
func (p *Plugin) collect(r *request, source *kinds.Resource, b *binding) ([]*params, error) {
	ref := b.paramRef
	if source == nil || ref == nil {
		return []*params{{}}, nil
	}
	namespace := ""
	if source.Namespaced {
		namespace = r.GetNamespace()
		if ref.Namespace != "" {
			namespace = ref.Namespace
		} else if namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
		}
	} else if ref.Namespace != "" {
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	}
	objects, err := p.named(source, namespace, ref)
	if err != nil {
		return nil, err
	}
	all := make([]*params, 0, len(objects))
	for _, o := range objects {
		object, err := p.param(r, source, o)
		if err != nil {
			return nil, err
		}
		all = append(all, &params{object})
	}
	if len(all) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistration.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return all, nil
}

// named returns the stored objects that a reference names or selects. It is an error if one of them may be one that
// cannot be read: what it would forbid is not allowed then.
func (p *Plugin) named(source *kinds.Resource, namespace string, ref *admissionregistration.ParamRef) ([]*wire.Object, error) {
	home := source.Home().GR()
	if err := p.cluster.UnknownOf(home, namespace, ref.Name); err != nil { // before the look
		return nil, fmt.Errorf("a parameter cannot be read: %w", err)
	}
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		if o := p.cluster.Find(home, wire.Key{Namespace: namespace, Name: ref.Name}); o != nil {
			return []*wire.Object{o}, nil
		}
		return nil, nil
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	var selected []*wire.Object
	for o := range p.cluster.Objects(home, namespace) {
		if selector.Matches(o.Labels()) {
			selected = append(selected, o)
		}
	}
	return selected, nil
}

// param returns a stored object as expressions see it: in the version of the policy.
func (p *Plugin) param(r *request, source *kinds.Resource, o *wire.Object) (runtime.Object, error) {
	shown, err := p.cluster.Show(r.ctx, source, o)
	if err != nil {
		return nil, err
	}
	content, err := jsontree.Decode(shown.JSON())
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}
