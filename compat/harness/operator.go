package harness

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Operator is an operator in another language: a program that applies a child of the same
// name for each of its owners, with an owner reference, and has a finalizer on the owner.
// When an owner is deleted, it creates a ConfigMap NAME-was-here and removes the finalizer.
type Operator struct {
	Owners, Children, Notes string // the URL paths of the collections
	// Owner is an owner with a value, as JSON: a body to create it, and a merge patch.
	Owner func(name, value string) string
	// Shows is what the JSON of a child has in it for that value.
	Shows func(value string) string
	// Status, if any, is what the JSON of the owner has in it once its status is written.
	Status func(value string) string

	t   testing.TB
	s   *Server
	web *http.Client
}

// Play lets the operator work through changes, a restart of the server, and an outage
// during which the history that it needs is compacted; and then checks that what it
// deletes is collected. The operator talks to the proxy.
func (o *Operator) Play(t testing.TB, s *Server, p *Proxy) {
	t.Helper()
	o.t, o.s, o.web = t, s, Administrator(t, s).Client(t)
	o.do(http.MethodPost, o.Owners, o.Owner("first", "one"), http.StatusCreated)
	o.await("first", "one")
	child := o.get(o.Children + "/first")
	if !strings.Contains(child, `"ownerReferences":[`) || !strings.Contains(child, `"operation":"Apply"`) {
		t.Errorf("the child has no owner or was not applied: %s", child)
	}
	if owner := o.get(o.Owners + "/first"); !strings.Contains(owner, `"finalizers":[`) {
		t.Errorf("the owner has no finalizer: %s", owner)
	}
	o.do(http.MethodPatch, o.Owners+"/first", o.Owner("first", "two"), http.StatusOK)
	o.await("first", "two")
	o.do(http.MethodDelete, o.Children+"/first", "", http.StatusOK)
	o.await("first", "two") // again

	s.Restart(t)
	o.do(http.MethodPost, o.Owners, o.Owner("second", "three"), http.StatusCreated)
	o.await("second", "three")

	p.Refuse()
	p.Cut()
	o.do(http.MethodPost, o.Owners, o.Owner("third", "four"), http.StatusCreated)
	o.do(http.MethodPatch, o.Owners+"/second", o.Owner("second", "five"), http.StatusOK)
	s.Run(t, "compact", "--older-than", "0s")
	p.Accept(t)
	o.await("third", "four")
	o.await("second", "five")

	o.do(http.MethodDelete, o.Owners+"/first", "", http.StatusOK)
	for _, gone := range []string{o.Owners + "/first", o.Children + "/first"} {
		Eventually(t, gone+" is gone", func() bool { return o.get(gone) == "" })
	}
	if o.get(o.Notes+"/first-was-here") == "" {
		t.Error("the finalizer was removed before the operator had cleaned up")
	}
	o.await("second", "five") // of another owner
}

// await waits until a child and its owner show a value.
func (o *Operator) await(name, value string) {
	o.t.Helper()
	Eventually(o.t, "the child "+name+" has the value "+value, func() bool {
		return strings.Contains(o.get(o.Children+"/"+name), o.Shows(value))
	})
	if o.Status == nil {
		return
	}
	Eventually(o.t, "the status of "+name+" has the value "+value, func() bool {
		return strings.Contains(o.get(o.Owners+"/"+name), o.Status(value))
	})
}

// get returns an object as JSON, "" if there is none.
func (o *Operator) get(path string) string {
	o.t.Helper()
	code, answer := o.send(http.MethodGet, path, "")
	if code == http.StatusNotFound {
		return ""
	}
	if code != http.StatusOK {
		o.t.Fatalf("GET %s: %d %s", path, code, answer)
	}
	return answer
}

func (o *Operator) do(method, path, body string, want int) {
	o.t.Helper()
	if code, answer := o.send(method, path, body); code != want {
		o.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
}

func (o *Operator) send(method, path, body string) (int, string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.s.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := o.web.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
