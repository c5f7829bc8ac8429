package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/patch"
	"github.com/gapless-io/gapless/internal/wire"

	"github.com/gapless-io/gapless/internal/kinds"
)

// mutation is one write that mutating webhooks are asked about.
type mutation struct {
	*Plugin
	a     asked
	redo  func() error
	again *reinvocation
}

// Waits implements admission.Plugin: webhooks answer when they like.
func (*Plugin) Waits(*kinds.Resource, string, upstream.Operation) bool { return true }

// Admit implements admission.Plugin: it asks the mutating webhooks, one after the other. Each
// sees what the one before has changed.
func (p *Plugin) Admit(ctx context.Context, a upstream.Attributes, redo func() error) error {
	found := p.find(match.QuestionOf(a))
	if found == nil || len(found.mutating) == 0 {
		return nil
	}
	m := &mutation{Plugin: p, a: p.asked(a), redo: redo, again: reinvocationOf(a)}
	rounds := a.GetReinvocationContext()
	if rounds.IsReinvoke() && m.again.changedSince(a.GetObject()) {
		m.again.require() // another plugin has changed the object
	}
	defer func() { m.again.remember(a.GetObject()) }()
	for _, c := range found.mutating {
		toAsk, err := p.applies(ctx, c, m.a)
		if err != nil {
			return err
		}
		if toAsk == nil || rounds.IsReinvoke() && !m.again.required[c.uid] {
			continue
		}
		if err := m.ask(ctx, toAsk); err != nil {
			return err
		}
	}
	return nil
}

// ask asks one webhook, and applies its patch.
func (m *mutation) ask(ctx context.Context, c *call) (err error) {
	if c.view, err = m.a.views.Of(ctx, c.by); err != nil {
		return apierrors.NewInternalError(err)
	}
	began := time.Now()
	said, err := m.call(ctx, c)
	changed := false
	if err == nil && len(said.patch) > 0 {
		changed, err = m.change(ctx, c, said)
	}
	m.annotateMutation(ctx, c, changed)
	m.metrics.called(c, m.a, began, err)
	rounds := m.a.GetReinvocationContext()
	if changed {
		m.again.require()
		rounds.SetShouldReinvoke()
	}
	if c.ReinvocationPolicy != nil && *c.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy {
		m.again.asked(c.uid)
	}
	if err == nil {
		return nil
	}
	goOn, err := m.verdict(ctx, c, m.a, err)
	if goOn && ctx.Err() != nil {
		return outOfTime()
	}
	return err
}

// change applies the patch of an answer to the object of the write.
func (m *mutation) change(ctx context.Context, c *call, said *answer) (changed bool, err error) {
	steps, err := jsonpatch.DecodePatch(said.patch)
	if err != nil {
		return false, &callError{
			webhook: c.Name, why: fmt.Errorf("received undecodable patch in webhook response: %w", err), code: 503,
		}
	}
	if len(steps) == 0 {
		return false, nil
	}
	current, is := c.view.VersionedObject.Object().(*unstructured.Unstructured)
	if !is {
		return false, apierrors.NewInternalError(
			fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", c.Name))
	}
	if said.patchType != admissionv1.PatchTypeJSONPatch {
		return false, &callError{webhook: c.Name, why: fmt.Errorf("unsupported patch type %q", said.patchType), code: 400}
	}
	content, changed, err := patched(current.Object, said.patch)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	m.annotatePatch(ctx, c, steps)
	if !changed {
		return false, nil
	}
	u := &unstructured.Unstructured{Object: content}
	if got := u.GroupVersionKind(); got != c.by.Kind {
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q changed the object to a %v, it must stay a %v",
			c.Name, got, c.by.Kind))
	}
	if u, err = m.a.views.Convert(ctx, u, c.by, m.a.views.Own()); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	object, is := m.a.GetObject().(*unstructured.Unstructured)
	if !is {
		return false, apierrors.NewInternalError(errors.New("the write has no object"))
	}
	object.Object = u.Object
	m.a.views.Forget()
	if err := m.redo(); err != nil {
		return true, apierrors.NewInternalError(err)
	}
	return true, nil
}

// patched applies a JSON patch to content, within the bounds of patches of clients. It does not
// change content.
func patched(content map[string]any, steps []byte) (after map[string]any, changed bool, err error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, false, err
	}
	before, err := jsontree.Decode(text)
	if err != nil {
		return nil, false, err
	}
	result, _, err := patch.New(wire.Patch{Type: types.JSONPatchType, Body: steps}).Apply(text, nil)
	if err != nil {
		return nil, false, cause(err)
	}
	if after, err = jsontree.Decode(result); err != nil {
		return nil, false, err
	}
	return after, !jsontree.Equal(before, after), nil
}

// cause returns why a patch cannot be applied, which the answers to patches of clients do not
// say.
func cause(err error) error {
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Code == 422 && e.Cause != nil {
		return e.Cause
	}
	return err
}

// annotateMutation records in the audit event whether a webhook has changed the object.
func (m *mutation) annotateMutation(ctx context.Context, c *call, mutated bool) {
	value, err := json.Marshal(struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{c.configuration, c.Name, mutated})
	if err == nil {
		m.annotate(ctx, m.a, fmt.Sprintf("mutation.webhook.admission.k8s.io/round_%d_index_%d", round(m.a), c.place),
			string(value))
	}
}

// annotatePatch records the patch, for the audit level Request and above.
func (m *mutation) annotatePatch(ctx context.Context, c *call, steps jsonpatch.Patch) {
	value, err := json.Marshal(struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         jsonpatch.Patch `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{c.configuration, c.Name, steps, string(admissionv1.PatchTypeJSONPatch)})
	if err != nil {
		return
	}
	key := fmt.Sprintf("patch.webhook.admission.k8s.io/round_%d_index_%d", round(m.a), c.place)
	if err := m.a.AddAnnotationWithLevel(key, string(value), auditinternal.LevelRequest); err != nil {
		m.logger.WarnContext(ctx, "an audit annotation of a webhook is refused", slog.String("key", key), slog.Any("error", err))
	}
}

// reinvocation says which webhooks are asked again in the second round of a write
// (mutating.webhookReinvokeContext).
type reinvocation struct {
	last     map[string]any  // the object after the webhooks were asked
	before   map[string]bool // asked webhooks that may be asked again, by uid
	required map[string]bool // those that are asked again
}

// key is where a reinvocation is kept between the rounds.
const key = "MutatingAdmissionWebhook"

func reinvocationOf(a upstream.Attributes) *reinvocation {
	rounds := a.GetReinvocationContext()
	if known, is := rounds.Value(key).(*reinvocation); is {
		return known
	}
	made := &reinvocation{before: map[string]bool{}, required: map[string]bool{}}
	rounds.SetValue(key, made)
	return made
}

// asked notes that a webhook may be asked again.
func (r *reinvocation) asked(uid string) { r.before[uid] = true }

// require has the webhooks asked again that were asked so far.
func (r *reinvocation) require() {
	for uid := range r.before {
		r.required[uid] = true
	}
	clear(r.before)
}

// remember keeps the object as the webhooks have left it. Without a webhook that may be asked
// again, nobody needs it.
func (r *reinvocation) remember(o runtime.Object) {
	r.last = nil
	if u, is := o.(*unstructured.Unstructured); is && len(r.before)+len(r.required) > 0 {
		r.last = runtime.DeepCopyJSON(u.Object)
	}
}

// changedSince reports whether the object is another one than remembered.
func (r *reinvocation) changedSince(o runtime.Object) bool {
	u, is := o.(*unstructured.Unstructured)
	return is && r.last != nil && !jsontree.Equal(r.last, u.Object)
}
