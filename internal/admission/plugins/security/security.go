// Package security has the admission plugin PodSecurity, which refuses pods that are not as secure as the labels
// pod-security.kubernetes.io/ of their namespaces demand, or warns about them, or notes them in the audit log.
//
// What a level allows is upstream's k8s.io/pod-security-admission/policy. Upstream's package admission, which asks it,
// is not used: it imports client-go's clients, listers and caches (decision 13), and wants all pods as Go values.
package security

import (
	"context"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Name is the name of PodSecurity.
const Name = "PodSecurity"

//nolint:gochecknoglobals // names
var (
	pods       = kinds.GroupResource{Resource: "pods"}
	namespaces = kinds.GroupResource{Resource: "namespaces"}
	// templates are where the resources that make pods have the template of a pod.
	templates = map[kinds.GroupResource][]string{
		{Resource: "replicationcontrollers"}:      {"spec", "template"},
		{Resource: "podtemplates"}:                {"template"},
		{Group: "apps", Resource: "replicasets"}:  {"spec", "template"},
		{Group: "apps", Resource: "deployments"}:  {"spec", "template"},
		{Group: "apps", Resource: "statefulsets"}: {"spec", "template"},
		{Group: "apps", Resource: "daemonsets"}:   {"spec", "template"},
		{Group: "batch", Resource: "jobs"}:        {"spec", "template"},
		{Group: "batch", Resource: "cronjobs"}:    {"spec", "jobTemplate", "spec", "template"},
	}
)

// Cluster reads pods from memory.
type Cluster interface {
	// Objects yields the objects of a resource in a namespace, in the order of their names.
	Objects(gr kinds.GroupResource, namespace string) iter.Seq[*wire.Object]
	// UnknownOf is plugins.Cluster's.
	UnknownOf(gr kinds.GroupResource, namespace, name string) error
}

// PodSecurity is upstream's plugin of this name. Config is a PodSecurityConfiguration, in YAML or JSON; nil: upstream's
// defaults, where namespaces without labels are privileged. Errors: it is none, or what is wrong in it.
func PodSecurity(of *Namespaces, c Cluster, config []byte) (plugins.Plugin, error) {
	cfg, err := configured(config)
	if err != nil {
		return plugins.Plugin{}, err
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return plugins.Plugin{}, fmt.Errorf("make the checks of %s: %w", Name, err)
	}
	p := &plugin{configuration: cfg, namespaces: of, cluster: c, checks: checks, metrics: newMetrics()}
	both := []upstream.Operation{upstream.Create, upstream.Update}
	concerns := []plugins.Concern{
		// A survey of the pods in a namespace takes a while.
		{Resource: namespaces, Operations: both, Waits: func() bool { return true }},
		{Resource: pods, Operations: both},
		{Resource: pods, Subresource: "ephemeralcontainers", Operations: both},
		{Resource: pods, Subresource: "resize", Operations: both},
	}
	for gr := range templates {
		concerns = append(concerns, plugins.Concern{Resource: gr, Operations: both, Idle: p.ignoresTemplates})
	}
	return plugins.Plugin{Name: Name, Concerns: concerns, Validate: p.validate, Metrics: p.metrics}, nil
}

type plugin struct {
	configuration

	namespaces *Namespaces
	cluster    Cluster
	checks     policy.Evaluator
	metrics    *metrics
}

// ignoresTemplates reports whether nothing is said of any template at the moment.
func (p *plugin) ignoresTemplates() bool {
	return len(p.exemptNamespaces)+len(p.exemptUsers) == 0 && ignoresTemplates(p.defaults) && p.namespaces.none()
}

func ignoresTemplates(by api.Policy) bool {
	return by.Audit.Level == api.LevelPrivileged && by.Warn.Level == api.LevelPrivileged
}

func (p *plugin) validate(ctx context.Context, w *plugins.Write) error {
	said := verdict{}
	var err error
	switch w.GetResource().GroupResource() {
	case namespaces:
		err = p.namespace(ctx, w, &said)
	case pods:
		err = p.pod(w, &said)
	default:
		p.template(w, &said)
	}
	for _, text := range said.warnings {
		warning.AddWarning(ctx, "", text)
	}
	for _, n := range said.annotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+n.key, n.value)
	}
	return err
}

// verdict is what the plugin says of a write, beside an error.
type verdict struct {
	warnings    []string
	annotations []note // for the audit log; their keys are without their prefix, and stand once
}

type note struct{ key, value string }

func (v *verdict) note(key, value string) {
	if i := slices.IndexFunc(v.annotations, func(n note) bool { return n.key == key }); i >= 0 {
		v.annotations[i].value = value
		return
	}
	v.annotations = append(v.annotations, note{key, value})
}

// privileged is the policy where nothing is refused.
const privileged = string(api.LevelPrivileged) + ":latest"

// errorKey is the annotation with what went wrong, as upstream.
const errorKey = "error"

// pod looks at a new pod, or at an update that brings images.
func (p *plugin) pod(w *plugins.Write, said *verdict) error {
	if p.exempts(w, said) {
		return nil
	}
	labels, err := p.namespaces.labels(w.GetNamespace())
	if err != nil {
		p.metrics.failed(true, w)
		status := apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", w.GetNamespace()))
		said.note(errorKey, fmt.Sprintf("%s: %v", status.ErrStatus.Message, err))
		return status
	}
	by, wrong := api.PolicyToEvaluate(labels, p.defaults)
	if len(wrong) == 0 && by.FullyPrivileged() {
		p.metrics.privileged(by.Enforce, w)
		said.note(api.EnforcedPolicyAnnotationKey, privileged)
		return nil
	}
	if w.GetOperation() == upstream.Update &&
		!bringsImages(tree.Child(w.Object.Object, "spec"), tree.Child(w.Old.Object, "spec")) {
		return nil
	}
	s, err := readSubject(w.Object.Object)
	if err != nil {
		return p.undecoded(w, said, err)
	}
	if p.exemptsRuntime(w, s, said) {
		return nil
	}
	if wrong != nil {
		said.note(errorKey, fmt.Sprintf("Failed to parse policy: %v", wrong.ToAggregate()))
		p.metrics.failed(false, w)
	}
	said.note(api.EnforcedPolicyAnnotationKey, by.Enforce.String())
	e := p.evaluation(s, w)
	if found := e.against(by.Enforce); !found.Allowed {
		err = apierrors.NewForbidden(w.GetResource().GroupResource(), w.GetName(),
			fmt.Errorf("violates PodSecurity %q: %s", by.Enforce.String(), found.ForbiddenDetail()))
		p.metrics.evaluated(denied, by.Enforce, enforced, w)
	} else {
		p.metrics.evaluated(allowed, by.Enforce, enforced, w)
	}
	e.tell(by, said, err == nil)
	return err
}

// undecoded is upstream's answer to a pod that cannot be read; the rules of the kind have let it pass.
func (p *plugin) undecoded(w *plugins.Write, said *verdict, err error) error {
	p.metrics.failed(true, w)
	status := apierrors.NewBadRequest("failed to decode object")
	said.note(errorKey, fmt.Sprintf("%s: %v", status.ErrStatus.Message, err))
	return status
}

// template looks at what makes pods, without refusing it.
func (p *plugin) template(w *plugins.Write, said *verdict) {
	if p.exempts(w, said) {
		return
	}
	labels, err := p.namespaces.labels(w.GetNamespace())
	if err != nil {
		p.metrics.failed(true, w)
		said.note(errorKey, fmt.Sprintf("failed to lookup namespace %q: %v", w.GetNamespace(), err))
		return
	}
	by, wrong := api.PolicyToEvaluate(labels, p.defaults)
	if len(wrong) == 0 && ignoresTemplates(by) {
		return
	}
	template := tree.Child(w.Object.Object, templates[w.GetResource().GroupResource()]...)
	if template == nil {
		return
	}
	s, err := readSubject(template)
	if err != nil {
		p.metrics.failed(true, w)
		said.note(errorKey, fmt.Sprintf("failed to decode object: %v", err))
		return
	}
	if p.exemptsRuntime(w, s, said) {
		return
	}
	if wrong != nil {
		said.note(errorKey, fmt.Sprintf("Failed to parse policy: %v", wrong.ToAggregate()))
		p.metrics.failed(false, w)
	}
	p.evaluation(s, w).tell(by, said, true)
}

// subject is a pod, or the template of one.
type subject struct {
	metadata metav1.ObjectMeta // of which the checks read the annotations
	spec     corev1.PodSpec
}

func readSubject(o map[string]any) (*subject, error) {
	s := &subject{}
	for key, value := range tree.Child(o, "metadata", "annotations") {
		if text, is := value.(string); is {
			metav1.SetMetaDataAnnotation(&s.metadata, key, text)
		}
	}
	return s, runtime.DefaultUnstructuredConverter.FromUnstructured(tree.Child(o, "spec"), &s.spec)
}

// evaluation compares a subject with levels, with each once.
type evaluation struct {
	*plugin

	subject *subject
	write   *plugins.Write
	found   map[api.LevelVersion]policy.AggregateCheckResult
}

func (p *plugin) evaluation(s *subject, w *plugins.Write) evaluation {
	return evaluation{p, s, w, map[api.LevelVersion]policy.AggregateCheckResult{}}
}

func (e evaluation) against(level api.LevelVersion) policy.AggregateCheckResult {
	found, is := e.found[level]
	if !is {
		found = policy.AggregateCheckResults(e.checks.EvaluatePod(level, &e.subject.metadata, &e.subject.spec))
		e.found[level] = found
	}
	return found
}

// tell notes what would be refused by the level for the audit log, and warns of it unless the write is refused.
func (e evaluation) tell(by api.Policy, said *verdict, warns bool) {
	if found := e.against(by.Audit); !found.Allowed {
		said.note(api.AuditViolationsAnnotationKey, violates(by.Audit, found))
		e.metrics.evaluated(denied, by.Audit, audited, e.write)
	}
	if !warns {
		return
	}
	if found := e.against(by.Warn); !found.Allowed {
		said.warnings = append(said.warnings, violates(by.Warn, found))
		e.metrics.evaluated(denied, by.Warn, warned, e.write)
	}
}

func violates(level api.LevelVersion, found policy.AggregateCheckResult) string {
	return fmt.Sprintf("would violate PodSecurity %q: %s", level.String(), found.ForbiddenDetail())
}

// bringsImages reports whether an update of a pod brings containers or images: nothing else that matters can change
// (pod-security-admission isSignificantPodUpdate).
func bringsImages(now, old map[string]any) bool {
	for _, list := range []string{"containers", "initContainers"} {
		are, _ := now[list].([]any)
		were, _ := old[list].([]any)
		if len(are) != len(were) {
			return true
		}
		for i := range are {
			c, _ := are[i].(map[string]any)
			before, _ := were[i].(map[string]any)
			if c["image"] != before["image"] {
				return true
			}
		}
	}
	had := map[string]any{}
	for c := range tree.Items(old, "ephemeralContainers") {
		had[tree.Text(c, "name")] = c["image"]
	}
	for c := range tree.Items(now, "ephemeralContainers") {
		if image, is := had[tree.Text(c, "name")]; !is || image != c["image"] {
			return true
		}
	}
	return false
}
