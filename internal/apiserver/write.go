package apiserver

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// fieldManager is who writes: what the query says, else the user agent up to its
// slash (server.md 5).
func fieldManager(r *http.Request) string {
	if manager := r.URL.Query().Get("fieldManager"); manager != "" {
		return manager
	}
	manager, _, _ := strings.Cut(r.UserAgent(), "/")
	return manager
}

// write serves the verbs that change one object.
func (s *Server) write(w http.ResponseWriter, r *http.Request, rt route) error {
	into, err := negotiate(r, rt.verb)
	if err != nil {
		return err
	}
	change := s.store // the body is the object
	if rt.verb == verbPatch {
		change = s.patch
	}
	if rt.verb == verbDelete {
		change = s.delete
	}
	out, err := change(r, rt)
	if err != nil {
		return err
	}
	return s.writeWritten(w, into, out)
}

// store creates or updates an object.
func (s *Server) store(r *http.Request, rt route) (kube.Written, error) {
	body, err := readObject(r, rt)
	if err != nil {
		return kube.Written{}, err
	}
	q := r.URL.Query()
	o := metav1.CreateOptions{DryRun: q["dryRun"], FieldManager: fieldManager(r), FieldValidation: q.Get("fieldValidation")}
	if rt.verb == verbCreate {
		return s.cfg.Writer.Create(r.Context(), rt.Target, body, o)
	}
	return s.cfg.Writer.Update(r.Context(), rt.Target, body, metav1.UpdateOptions{
		DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation,
	})
}

func (s *Server) patch(r *http.Request, rt route) (kube.Written, error) {
	p, err := readPatch(r, rt)
	if err != nil {
		return kube.Written{}, err
	}
	q := r.URL.Query()
	o := metav1.PatchOptions{DryRun: q["dryRun"], FieldManager: fieldManager(r), FieldValidation: q.Get("fieldValidation")}
	if q.Has("force") {
		force := kube.ParseBool(q, "force")
		o.Force = &force
	}
	return s.cfg.Writer.Patch(r.Context(), rt.Target, p, o)
}

func (s *Server) delete(r *http.Request, rt route) (kube.Written, error) {
	o, err := deleteOptions(r)
	if err != nil {
		return kube.Written{}, err
	}
	return s.cfg.Writer.Delete(r.Context(), rt.Target, o)
}

func (s *Server) deleteCollection(w http.ResponseWriter, r *http.Request, rt route) error {
	into, err := negotiate(r, verbDeleteCollection)
	if err != nil {
		return err
	}
	selected, err := kube.ParseListOptions(r.URL.Query(), false)
	if err != nil {
		return err
	}
	if err := kube.CheckFields(selected.Fields, rt.Resource.Fields); err != nil {
		return err
	}
	o, err := deleteOptions(r)
	if err != nil {
		return err
	}
	p, err := newPainter(r, rt, into)
	if err != nil {
		return err
	}
	deleted, err := s.cfg.Writer.DeleteCollection(r.Context(), rt.Target, o, selected)
	if err != nil {
		return err
	}
	return s.writeList(r.Context(), w, into, p, deleted)
}
