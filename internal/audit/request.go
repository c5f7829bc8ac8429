package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"
)

// The annotations of an authorizer's decision (apiserver endpoints/filters/authorization.go).
const (
	decisionKey = "authorization.k8s.io/decision"
	reasonKey   = "authorization.k8s.io/reason"
)

// Request is one request that is recorded. All methods of nil do nothing: that is a request
// that is not. It is used by one goroutine at a time, besides Wrote, and keeps nothing of the HTTP
// request but what its events have.
type Request struct {
	log     *Log
	context *audit.AuditContext
	level   auditinternal.Level
	drops   bool // managed fields
	unknown bool // who the caller is
	body    meta
	wrote   written
	long    bool // it is a watch
	probe   bool // it is a health check
	started bool
}

// meta is what an event has of the object in the body.
type meta struct{ name, namespace, uid, resourceVersion string }

type contextKey struct{}

// From returns the request that a context is of; nil if it is not recorded.
func From(ctx context.Context) *Request {
	q, _ := ctx.Value(contextKey{}).(*Request)
	return q
}

// Arrived is a request as it arrived.
type Arrived struct {
	HTTP *http.Request
	ID   string
	At   time.Time
	// Caller is who sends it; nil: nobody knows, and it is refused for that.
	Caller user.Info
}

// Begin records that a request has arrived, if the policy says so. The context it returns is
// for all that serves the request. An error means that it must be refused.
func (l *Log) Begin(ctx context.Context, a Arrived) (context.Context, *Request, error) {
	what := l.attributes(a)
	rule := l.policy.rules.EvaluatePolicyRule(what)
	l.counts.levels.WithLabelValues(string(rule.Level)).Inc()
	if rule.Level == auditinternal.LevelNone {
		return ctx, nil, nil
	}
	ctx = audit.WithAuditContext(ctx)
	q := &Request{
		log: l, context: audit.AuditContextFrom(ctx), level: rule.Level, drops: rule.OmitManagedFields, unknown: a.Caller == nil,
		long: what.GetVerb() == "watch", probe: isProbe(a.HTTP.URL.Path),
	}
	if err := q.context.Init(rule, q); err != nil {
		return ctx, nil, err
	}
	audit.WithAuditID(ctx, types.UID(a.ID))
	audit.LogRequestMetadata(ctx, a.HTTP, a.At, what)
	ctx = context.WithValue(ctx, contextKey{}, q)
	if q.unknown { // as upstream: only the refusal is an event
		return ctx, q, nil
	}
	if !q.stage(ctx, auditinternal.StageRequestReceived) {
		l.counts.rejected.Inc()
		return ctx, nil, fmt.Errorf("the audit event of the request could not be written to %s", l.o.Path)
	}
	return ctx, q, nil
}

// isProbe reports whether a path is that of a health check.
func isProbe(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "livez" || first == "readyz" || first == "healthz"
}

// attributes are what rules look at: upstream's reading of the path, also of one that is not
// served here.
func (l *Log) attributes(a Arrived) authorizer.Attributes {
	info, err := l.paths.NewRequestInfo(a.HTTP)
	if err != nil { // its query cannot be read
		info = &request.RequestInfo{Path: a.HTTP.URL.Path, Verb: strings.ToLower(a.HTTP.Method)}
	}
	what := authorizer.AttributesRecord{Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest}
	if a.Caller != nil {
		what.User = a.Caller
	}
	if info.IsResourceRequest {
		what.APIGroup, what.APIVersion = info.APIGroup, info.APIVersion
		what.Resource, what.Subresource = info.Resource, info.Subresource
		what.Namespace, what.Name = info.Namespace, info.Name
	}
	return what
}

// ProcessEvents implements upstream's Sink for the events of this request.
func (q *Request) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		if q.body != (meta{}) && e.ObjectRef != nil { // apiserver audit/request.go LogRequestObject
			fill(&e.ObjectRef.Namespace, q.body.namespace)
			fill(&e.ObjectRef.Name, q.body.name)
			fill((*string)(&e.ObjectRef.UID), q.body.uid)
			fill(&e.ObjectRef.ResourceVersion, q.body.resourceVersion)
		}
		if changes := q.wrote.String(); changes != "" {
			if e.Annotations == nil {
				e.Annotations = map[string]string{}
			}
			e.Annotations[changeKey] = changes
		}
		if !q.log.record(e, q.probe) {
			return false
		}
	}
	return true
}

func fill(into *string, from string) {
	if *into == "" {
		*into = from
	}
}

func (q *Request) stage(ctx context.Context, stage auditinternal.Stage) bool {
	return q.context.ProcessEventStage(ctx, stage)
}

// Decided records the decision of an authorizer.
func (q *Request) Decided(ctx context.Context, allowed bool, reason string) {
	if q == nil {
		return
	}
	decision := "forbid"
	if allowed {
		decision = "allow"
	}
	audit.AddAuditAnnotations(ctx, decisionKey, decision, reasonKey, reason)
}

// Wrote records that the request has made a change of the resource it is about. Several goroutines may call it at once.
func (q *Request) Wrote(revision int64) {
	if q != nil && revision > 0 {
		q.wrote.add(uint64(revision))
	}
}

// Undecided records that the authorizer could not decide, and the request is refused for that.
func (q *Request) Undecided(ctx context.Context) {
	if q != nil {
		audit.AddAuditAnnotation(ctx, reasonKey, "internal error")
	}
}

// Impersonates records the user as who the request runs, and the verb of constrained impersonation that allowed it;
// "": it was another one.
func (q *Request) Impersonates(ctx context.Context, as user.Info, constraint string) {
	if q != nil {
		audit.LogImpersonatedUser(ctx, as, constraint)
	}
}

// Body records an object in the body, which is JSON. What is not JSON is not recorded: the
// request is refused.
func (q *Request) Body(body []byte) {
	if q == nil {
		return
	}
	q.body = metaOf(body)
	if q.level.Less(auditinternal.LevelRequest) || len(body) == 0 || !json.Valid(body) {
		return
	}
	if q.drops {
		body = withoutManagedFields(body)
	}
	q.context.LogRequestPatch(body) // upstream's name: it takes any JSON
}

// Options records the options of a deletion, as they were sent.
func (q *Request) Options(body []byte) {
	if q == nil || q.level.Less(auditinternal.LevelRequest) || len(body) == 0 {
		return
	}
	if !json.Valid(body) {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil || converted[0] != '{' {
			return // it is protobuf, or refused
		}
		body = converted
	}
	q.context.LogRequestPatch(body)
}

// Patch records a patch of a media type.
func (q *Request) Patch(mediaType types.PatchType, body []byte) {
	if q == nil || q.level.Less(auditinternal.LevelRequest) {
		return
	}
	if mediaType == types.ApplyYAMLPatchType {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return
		}
		body = converted
	}
	if json.Valid(body) {
		q.context.LogRequestPatch(body)
	}
}

// WantsResponse reports whether the body of the answer is recorded.
func (q *Request) WantsResponse() bool {
	return q != nil && q.level.GreaterOrEqual(auditinternal.LevelRequestResponse)
}

// DropsManagedFields reports whether recorded objects have no managed fields.
func (q *Request) DropsManagedFields() bool { return q != nil && q.drops }

// Answered records the body of an answer, in JSON.
func (q *Request) Answered(body []byte) {
	if q.WantsResponse() {
		q.context.LogResponseObject(nil, unknown(body))
	}
}

// AnsweredStatus records an answer that is a Status.
func (q *Request) AnsweredStatus(status *metav1.Status) {
	if q == nil {
		return
	}
	var body *runtime.Unknown
	if q.WantsResponse() {
		if encoded, err := json.Marshal(status); err == nil {
			body = unknown(encoded)
		}
	}
	q.context.LogResponseObject(status, body)
}

func unknown(body []byte) *runtime.Unknown {
	return &runtime.Unknown{Raw: body, ContentType: runtime.ContentTypeJSON}
}

// Started records that a watch was opened.
func (q *Request) Started(ctx context.Context, code int) {
	if q == nil || q.started {
		return
	}
	q.started = true
	q.context.SetEventResponseStatusCode(int32(code)) //nolint:gosec // an HTTP status
	q.stage(ctx, auditinternal.StageResponseStarted)
}

// Completed records that the request has ended; code 0 means that nothing was answered.
func (q *Request) Completed(ctx context.Context, code int) {
	switch {
	case q == nil:
		return
	case code != 0:
		q.context.SetEventResponseStatusCode(int32(code)) //nolint:gosec // an HTTP status
	case q.context.GetEventResponseStatus() == nil:
		q.context.SetEventResponseStatus(&metav1.Status{
			Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early",
		})
	}
	if q.unknown || q.long && !q.started { // apiserver endpoints/filters/authn_audit.go; a watch that was refused
		q.stage(ctx, auditinternal.StageResponseStarted)
	}
	if q.unknown {
		return
	}
	q.stage(ctx, auditinternal.StageResponseComplete)
}

// Panicked records that serving the request has panicked, or was given up because its client
// has left.
func (q *Request) Panicked(ctx context.Context, cause any) {
	if q == nil {
		return
	}
	q.context.SetEventResponseStatus(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", cause),
	})
	q.stage(ctx, auditinternal.StagePanic)
}

// metaOf reads the metadata of an object, and no further.
func metaOf(body []byte) (m meta) {
	in := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := in.ReadToken(); err != nil || t.Kind() != '{' {
		return m
	}
	for in.PeekKind() == '"' {
		name, err := in.ReadToken()
		if err != nil {
			return m
		}
		if name.String() != "metadata" {
			if in.SkipValue() != nil {
				return m
			}
			continue
		}
		if t, err := in.ReadToken(); err != nil || t.Kind() != '{' {
			return m
		}
		for in.PeekKind() == '"' {
			name, err := in.ReadToken()
			if err != nil {
				return m
			}
			into := m.member(name.String())
			if into == nil || in.PeekKind() != '"' {
				if in.SkipValue() != nil {
					return m
				}
				continue
			}
			value, err := in.ReadToken()
			if err != nil {
				return m
			}
			*into = value.String()
		}
		return m
	}
	return m
}

func (m *meta) member(name string) *string {
	switch name {
	case "name":
		return &m.name
	case "namespace":
		return &m.namespace
	case "uid":
		return &m.uid
	case "resourceVersion":
		return &m.resourceVersion
	}
	return nil
}

// withoutManagedFields returns an object without its managed fields; one that has none as it is.
func withoutManagedFields(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"managedFields"`)) {
		return body
	}
	var object, metadata map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || json.Unmarshal(object["metadata"], &metadata) != nil {
		return body
	}
	delete(metadata, "managedFields")
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return body
	}
	object["metadata"] = encoded
	if encoded, err = json.Marshal(object); err != nil {
		return body
	}
	return encoded
}
