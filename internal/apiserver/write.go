package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	upstreamaudit "k8s.io/apiserver/pkg/audit"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/review"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// fieldManager returns who writes if the query does not say it: the user agent up to its
// slash, as far as that is printable and no longer than a name may be (apiserver
// handlers/create.go prefixFromUserAgent).
func fieldManager(r *http.Request) string {
	product, _, _ := strings.Cut(r.UserAgent(), "/")
	var manager []rune
	size := 0
	for _, c := range product {
		if size += utf8.RuneLen(c); size > metavalidation.FieldManagerMaxLength {
			break
		}
		if unicode.IsPrint(c) {
			manager = append(manager, c)
		} else {
			size -= utf8.RuneLen(c)
		}
	}
	return string(manager)
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	asked := rt.Target
	if sub := rt.Resource.Subresource(rt.Subresource); sub != nil && sub.Question != nil {
		rt.Resource, rt.Subresource = sub.Question, ""
	}
	renderer, into, err := answerForm(r, rt)
	if err != nil {
		return err
	}
	object, err := readObject(r, rt.Target, s.load)
	if err != nil {
		return err
	}
	audit.From(r.Context()).Body(object)
	q := rt.Query
	rt.Manager = fieldManager(r)
	o := metav1.CreateOptions{DryRun: q["dryRun"], FieldManager: q.Get("fieldManager"), FieldValidation: q.Get("fieldValidation")}
	var out wire.Written
	if review.Answers(rt.Resource) {
		request := review.Request{
			Authorizer: s.cfg.Authorizer, Tokens: s.cfg.Tokens, Target: rt.Target, Body: object,
			FieldValidation: o.FieldValidation,
		}
		if s.cfg.Ask != nil && asked.Subresource != "" {
			request.Ask = func(ctx context.Context, u *unstructured.Unstructured) ([]string, error) {
				return s.cfg.Ask(ctx, asked, u, o)
			}
		}
		out, err = review.Answer(r.Context(), request)
	} else {
		out, err = s.cfg.Writer.Create(r.Context(), rt.Target, object, o)
	}
	addWarnings(r.Context(), out.Warnings)
	if err != nil {
		return err
	}
	return answerWrite(w, r, answering{into, renderer}, out)
}

func (s *Server) update(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	renderer, into, err := answerForm(r, rt)
	if err != nil {
		return err
	}
	object, err := readObject(r, rt.Target, s.load)
	if err != nil {
		return err
	}
	audit.From(r.Context()).Body(object)
	q := rt.Query
	rt.Manager = fieldManager(r)
	o := metav1.UpdateOptions{DryRun: q["dryRun"], FieldManager: q.Get("fieldManager"), FieldValidation: q.Get("fieldValidation")}
	out, err := s.cfg.Writer.Update(r.Context(), s.mayCreate(r, rt), object, o)
	addWarnings(r.Context(), out.Warnings)
	if err != nil {
		return err
	}
	return answerWrite(w, r, answering{into, renderer}, out)
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	renderer, into, err := answerForm(r, rt)
	if err != nil {
		return err
	}
	p, err := readPatch(r, rt.Target, s.load)
	if err != nil {
		return err
	}
	audit.From(r.Context()).Patch(p.Type, p.Body)
	q := rt.Query
	rt.Manager = fieldManager(r)
	o := metav1.PatchOptions{DryRun: q["dryRun"], FieldManager: q.Get("fieldManager"), FieldValidation: q.Get("fieldValidation")}
	if q.Has("force") {
		force := wire.ParseBool(q, "force")
		o.Force = &force
	}
	out, err := s.cfg.Writer.Patch(r.Context(), s.mayCreate(r, rt), p, o)
	addWarnings(r.Context(), out.Warnings)
	if err != nil {
		return err
	}
	return answerWrite(w, r, answering{into, renderer}, out)
}

// mayCreate returns the target of a write that creates an object if there is none: then its
// caller must have the verb "create" as well (apiserver handlers/update.go withAuthorization).
func (s *Server) mayCreate(r *http.Request, rt route.Route) kinds.Target {
	rt.MayCreate = func(ctx context.Context) error {
		a := rt.Attributes(r)
		a.Verb = string(route.Create)
		return s.cfg.Authorizer.Authorize(ctx, rt.Caller, a)
	}
	return rt.Target
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	renderer, into, err := answerForm(r, rt)
	if err != nil {
		return err
	}
	o, err := readDeleteOptions(r, rt.Query)
	if err != nil {
		return err
	}
	audit.From(r.Context()).Options(limit.Received(r))
	out, err := s.cfg.Writer.Delete(r.Context(), s.mayDeleteUnread(r, rt), o)
	addWarnings(r.Context(), out.Warnings)
	if err != nil {
		return err
	}
	return answerWrite(w, r, answering{into, renderer}, out)
}

// unsafeVerb is what a caller must be allowed to do who deletes an object that cannot be read (KEP-3926).
const unsafeVerb = "unsafe-delete-ignore-read-errors"

// mayDeleteUnread returns the target of a deletion with what it needs if the object need not be readable. The audit
// event says that it was tried (apiserver handlers/delete.go authorizeUnsafeDelete).
func (s *Server) mayDeleteUnread(r *http.Request, rt route.Route) kinds.Target {
	rt.MayDeleteUnread = func(ctx context.Context) error {
		upstreamaudit.AddAuditAnnotation(ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
		a := rt.Attributes(r)
		a.Verb = unsafeVerb
		decided := s.cfg.Authorizer.Decide(ctx, rt.Caller, a)
		switch {
		case decided.Allowed:
			return nil
		case decided.Refusal != nil:
			return decided.Refusal
		}
		return wire.Forbidden(rt.Resource.GR(), rt.Name,
			fmt.Sprintf("not permitted to do %q, reason: %s", unsafeVerb, decided.Why()))
	}
	return rt.Target
}

func (s *Server) deleteCollection(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	into, err := render.Negotiate(r, &rt)
	if err != nil {
		return err
	}
	selected, err := wire.ParseListOptions(rt.Query, false)
	if err != nil {
		return err
	}
	if !selected.At.IsZero() {
		return wire.BadRequest("at is for lists: the past cannot be deleted")
	}
	if err := rt.Resource.CheckFields(selected.Fields); err != nil {
		return err
	}
	o, err := readDeleteOptions(r, rt.Query)
	if err != nil {
		return err
	}
	audit.From(r.Context()).Options(limit.Received(r))
	renderer, err := render.New(&rt, into)
	if err != nil {
		return err
	}
	deleted, err := s.cfg.Writer.DeleteCollection(r.Context(), rt.Target, o, selected)
	if err != nil {
		return err
	}
	if err := auditList(r, renderer, deleted); err != nil {
		return err
	}
	begun, err := s.lists.Write(w, into, renderer, deleted)
	return s.cutOff(r.Context(), begun, err)
}

// answerForm returns what the answer to a request about one object is rendered by.
// Errors: 400, 406.
func answerForm(r *http.Request, rt route.Route) (*render.Renderer, render.Form, error) {
	into, err := render.Negotiate(r, &rt)
	if err != nil {
		return nil, into, err
	}
	renderer, err := render.New(&rt, into)
	return renderer, into, err
}

// answering is how a write is answered.
type answering struct {
	into     render.Form
	renderer *render.Renderer
}

// answerWrite answers a write. A Status has one shape only (apiserver
// handlers/response.go doTransformObject).
func answerWrite(w http.ResponseWriter, r *http.Request, as answering, out wire.Written) error {
	var answer [][]byte
	var err error
	if out.Object != nil {
		if answer, err = as.renderer.Parts(out.Object); err == nil {
			err = auditObject(r, as.renderer, out.Object)
		}
	} else {
		audit.From(r.Context()).AnsweredStatus(out.Status)
		answer = make([][]byte, 1)
		answer[0], err = render.Status(as.into, *out.Status)
	}
	if err != nil {
		return wire.Internal(fmt.Errorf("encode the written object: %w", err))
	}
	code := http.StatusOK
	if out.Created {
		code = http.StatusCreated
	}
	render.Write(w, as.into, code, answer...)
	return nil
}
