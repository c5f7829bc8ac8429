package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/gapless-io/gapless/internal/faulthost"
)

// Definition edits or removes a CustomResourceDefinition while a watch is open. It does so
// as the administrator of the server or proxy. It changes what is
// stored, and removing the rule does not undo that.
type Definition struct {
	// Name is that of the definition, like "widgets.example.com".
	Name string `json:"name"`
	// Do is "remove", with all objects, or "edit", by Patch, a JSON merge patch.
	Do    string         `json:"do"`
	Patch map[string]any `json:"patch,omitzero"`
	// Frames is how many events of the watch are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (d *Definition) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var changing sync.WaitGroup
	defer changing.Wait()
	in := injectionOf(r.Context())
	Frames(w, r, next, After(d.Frames, func(Frame) []Frame {
		changing.Go(func() { in.rule.failed(d.change(r, next)) }) // the watch goes on meanwhile
		return nil
	}))
}

// change sends the request that changes the definition.
func (d *Definition) change(r *http.Request, next http.Handler) error {
	method := http.MethodDelete
	var body []byte
	if d.Do == "edit" {
		method = http.MethodPatch
		var err error
		if body, err = json.Marshal(d.Patch); err != nil {
			return fmt.Errorf("encode the patch: %w", err)
		}
	}
	in := injectionOf(r.Context())
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // the watch may end
	defer cancel()
	defer in.rule.removal.at(cancel)()
	request := r.Clone(ctx) // with the caller's credentials
	request.Method, request.Body, request.ContentLength = method, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	request.URL = &url.URL{Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + d.Name}
	request.RequestURI = request.URL.Path
	for _, name := range []string{"Connection", "Upgrade", "Accept", "Accept-Encoding"} { // of the watch
		request.Header.Del(name)
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	faulthost.Of(in.set).AsAdministrator(request)
	answer := newRecorder()
	if in.handler.next != nil {
		next = in.handler.next
	}
	next.ServeHTTP(answer, request)
	if answer.Code >= http.StatusMultipleChoices {
		return fmt.Errorf("%s the definition %s: %d %s", d.Do, d.Name, answer.Code, answer.Body.String())
	}
	return nil
}

func (d *Definition) check(*Rule, host) error {
	switch {
	case d.Name == "":
		return errors.New("with.name: want the name of a CustomResourceDefinition, like widgets.example.com")
	case d.Do != "edit" && d.Do != "remove":
		return fmt.Errorf("with.do is %q: want edit or remove", d.Do)
	case (d.Do == "edit") != (len(d.Patch) > 0):
		return errors.New("with.patch: an edit needs a JSON merge patch, and a removal has none")
	case d.Frames < 0:
		return errors.New("with.frames cannot be negative")
	}
	return nil
}
