package security

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/pod-security-admission/api"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// labelPrefix begins the labels of namespaces that say how secure their pods are.
const labelPrefix = "pod-security.kubernetes.io/"

// Namespaces is the namespaces with labels for PodSecurity. It is a registry.Follower, and safe for concurrent use.
type Namespaces struct {
	// Unknown is plugins.Cluster's UnknownOf; nil: all can be read.
	Unknown func(gr kinds.GroupResource, namespace, name string) error

	// mu guards labelled: the labels of namespaces that have some with labelPrefix, by name.
	mu       sync.RWMutex
	labelled map[string]labels.Set
}

// LabelledNamespaces returns an empty table.
func LabelledNamespaces() *Namespaces { return &Namespaces{labelled: map[string]labels.Set{}} }

// Follows implements registry.Follower.
func (n *Namespaces) Follows() []kinds.GroupResource { return []kinds.GroupResource{namespaces} }

// Replace implements registry.Follower.
func (n *Namespaces) Replace(_ kinds.GroupResource, objects []*wire.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.labelled)
	for _, o := range objects {
		n.putLocked(o)
	}
}

// Change implements registry.Follower.
func (n *Namespaces) Change(_ kinds.GroupResource, o *wire.Object, deleted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.labelled, o.Key().Name)
	if !deleted {
		n.putLocked(o)
	}
}

func (n *Namespaces) putLocked(o *wire.Object) {
	for key := range o.Labels() {
		if strings.HasPrefix(key, labelPrefix) {
			n.labelled[o.Key().Name] = o.Labels()
			return
		}
	}
}

// none reports whether no namespace has such labels, as far as they can be read.
func (n *Namespaces) none() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.labelled) == 0 && (n.Unknown == nil || n.Unknown(namespaces, "", "") == nil)
}

// labels returns the labels of a namespace if it has some for PodSecurity. Errors: it cannot be read.
func (n *Namespaces) labels(name string) (labels.Set, error) {
	if n.Unknown != nil {
		if err := n.Unknown(namespaces, "", name); err != nil { // before the look
			return nil, err
		}
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.labelled[name], nil
}

// namespace looks at the labels of a namespace: they are valid if they have changed, and there are warnings about the
// pods that a stricter level would refuse.
func (p *plugin) namespace(ctx context.Context, w *plugins.Write, said *verdict) error {
	now := w.Object.GetLabels()
	by, wrong := api.PolicyToEvaluate(now, p.defaults)
	invalid := func() error {
		return apierrors.NewInvalid(w.GetKind().GroupKind(), w.GetName(), wrong)
	}
	if w.GetOperation() == upstream.Create {
		if len(wrong) > 0 {
			return invalid()
		}
		p.warnOfExemption(w, by, now, said)
		return nil
	}
	was, wasWrong := api.PolicyToEvaluate(w.Old.GetLabels(), p.defaults)
	if len(wrong) > 0 && (len(wasWrong) == 0 || !reflect.DeepEqual(wrong, wasWrong)) {
		return invalid()
	}
	if by.Enforce == was.Enforce || by.Enforce.Level == api.LevelPrivileged ||
		by.Enforce.Version == was.Enforce.Version && api.CompareLevels(by.Enforce.Level, was.Enforce.Level) < 1 {
		return nil
	}
	if p.exemptNamespaces[w.GetNamespace()] {
		p.warnOfExemption(w, by, now, said)
		return nil
	}
	said.warnings = p.existing(ctx, w.Object.GetName(), by.Enforce)
	return nil
}

// warnOfExemption warns of labels that have no effect.
func (p *plugin) warnOfExemption(w *plugins.Write, by api.Policy, now labels.Set, said *verdict) {
	if !p.exemptNamespaces[w.GetNamespace()] || by.FullyPrivileged() || by.Equivalent(&p.defaults) {
		return
	}
	var ignored []string
	for _, mode := range []struct {
		name           string
		level          api.LevelVersion
		label, version string
	}{
		{"enforce", by.Enforce, api.EnforceLevelLabel, api.EnforceVersionLabel},
		{"audit", by.Audit, api.AuditLevelLabel, api.AuditVersionLabel},
		{"warn", by.Warn, api.WarnLevelLabel, api.WarnVersionLabel},
	} {
		if mode.level.Level != api.LevelPrivileged && (now.Has(mode.label) || now.Has(mode.version)) {
			ignored = append(ignored, mode.name+"="+mode.level.String())
		}
	}
	said.warnings = append(said.warnings, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be "+
		"ignored", w.Object.GetName(), strings.Join(ignored, ", ")))
}
