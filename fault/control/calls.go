package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Watch is a watch that is open, in the answer of GET watches. The fields are those of
// gapless.Watch.
type Watch struct {
	User          string               `json:"user"`
	UserAgent     string               `json:"userAgent"`
	Resource      string               `json:"resource"`
	Namespace     string               `json:"namespace,omitempty"`
	LabelSelector string               `json:"labelSelector,omitempty"`
	FieldSelector string               `json:"fieldSelector,omitempty"`
	Since         time.Time            `json:"since"`
	From          kube.ResourceVersion `json:"from"`
	Delivered     uint64               `json:"delivered"`
	Known         kube.ResourceVersion `json:"known"`
	Behind        uint64               `json:"behind,omitempty"`
}

// Server is what tests do to a server.
type Server interface {
	// Keep makes what the server holds now what Reset goes back to.
	Keep(ctx context.Context) error
	// Reset brings it back, and removes all faults.
	Reset(ctx context.Context) error
	// CompactEvery expires every resource version before the latest one, which it returns.
	CompactEvery(ctx context.Context) (kube.ResourceVersion, error)
	// Apply applies the manifests in files and directories of the server's machine.
	Apply(ctx context.Context, paths ...string) error
	// Watches returns the watches that are open.
	Watches() []Watch
}

// Calls serves what tests do to a server, below fault.CallsPath; docs/faults.md has the list.
type Calls struct{ Server Server }

// ServeHTTP implements http.Handler. Errors are answered as a Status.
func (c Calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := c.serve(w, r)
	if err != nil {
		fault.Refuse(w, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		fault.Refuse(w, wire.Internal(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// ask is the body of a call.
type ask struct {
	Paths []string `json:"paths,omitempty"`
}

// result is the body of an answer.
type result struct {
	Compacted string  `json:"compacted,omitempty"`
	Watches   []Watch `json:"watches,omitempty"`
}

func (c Calls) serve(w http.ResponseWriter, r *http.Request) (out result, err error) {
	name := strings.TrimPrefix(r.URL.Path, fault.CallsPath)
	method := http.MethodPost
	if name == "watches" {
		method = http.MethodGet
	}
	switch {
	case r.URL.RawQuery != "":
		return out, wire.BadRequest("%s has no parameters in its query, but there is %q", r.URL.Path, r.URL.RawQuery)
	case r.Method != method:
		return out, wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	asked, err := readAsk(w, r)
	if err != nil {
		return out, err
	}
	// What has begun goes on without its client: half a reset is of no use.
	ctx := context.WithoutCancel(r.Context())
	switch name {
	case "keep":
		err = c.Server.Keep(ctx)
	case "reset":
		err = c.Server.Reset(ctx)
	case "compact":
		var rv kube.ResourceVersion
		rv, err = c.Server.CompactEvery(ctx)
		out.Compacted = rv.String()
	case "apply":
		if len(asked.Paths) == 0 {
			return out, wire.BadRequest("there are no paths: want {\"paths\":[\"FILE\"]}")
		}
		if err = c.Server.Apply(ctx, asked.Paths...); err != nil {
			err = wire.BadRequest("%v", err)
		}
	case "watches":
		out.Watches = c.Server.Watches()
	default:
		return out, wire.NotFound(schema.GroupResource{Resource: "calls"}, name)
	}
	return out, err
}

// readAsk reads the body of a POST. As for rules, a page of another origin must not be able
// to send it.
func readAsk(w http.ResponseWriter, r *http.Request) (ask, error) {
	var asked ask
	if r.Method == http.MethodGet {
		return asked, nil
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		return asked, wire.UnsupportedMediaType([]string{"application/json"})
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, fault.MaxRulesBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
		return asked, wire.BadRequest("the body is no JSON object of this call: %v", err)
	}
	return asked, nil
}
