package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/past"
)

const (
	mediaJSON     = "application/json"
	mediaMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// maxAnswer is how many bytes of an answer of the API are held: a page has far less.
const maxAnswer = 64 << 20

// Refusal is an answer of the API that is not 2xx.
type Refusal struct {
	Code    int
	Message string
}

func (e *Refusal) Error() string { return e.Message }

// isRefused reports whether the API refused a request with one of these codes.
func isRefused(err error, codes ...int) bool {
	refused, is := errors.AsType[*Refusal](err)
	return is && slices.Contains(codes, refused.Code)
}

// answer is an http.ResponseWriter that keeps the body.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(b) > maxAnswer {
		return 0, fmt.Errorf("an answer of more than %d MiB", maxAnswer>>20)
	}
	return a.body.Write(b)
}

// ask returns the body of an answer of the API to the caller of r. Errors: *Refusal.
func (d *Dashboard) ask(r *http.Request, path, accept string) ([]byte, error) {
	if errors.Is(r.Context().Err(), context.DeadlineExceeded) { // of which the API would abort the page
		return nil, &Refusal{Code: http.StatusGatewayTimeout, Message: "there was no time left to read it"}
	}
	to, err := http.NewRequestWithContext(r.Context(), http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, &Refusal{Code: http.StatusBadRequest, Message: "the path of the API is invalid"}
	}
	to.RequestURI, to.RemoteAddr, to.Host = path, r.RemoteAddr, r.Host
	to.Proto, to.ProtoMajor, to.ProtoMinor = r.Proto, r.ProtoMajor, r.ProtoMinor // limits of connections look at it
	to.Header.Set("Accept", accept)
	to.Header.Set("User-Agent", "gapless-dashboard")
	to = d.identify(to, r)
	got := &answer{header: http.Header{}}
	d.cfg.API.ServeHTTP(got, to)
	if got.code/100 != 2 {
		var status struct{ Message string }
		if json.Unmarshal(got.body.Bytes(), &status) != nil || status.Message == "" {
			status.Message = fmt.Sprintf("the API answered %d", got.code)
		}
		return nil, &Refusal{Code: got.code, Message: status.Message}
	}
	return got.body.Bytes(), nil
}

// askFor decodes an answer of the API.
func (d *Dashboard) askFor(r *http.Request, path, accept string, into any) error {
	_, err := d.read(r, path, accept, into)
	return err
}

// read decodes an answer of the API, and returns how many bytes it had.
func (d *Dashboard) read(r *http.Request, path, accept string, into any) (int, error) {
	body, err := d.ask(r, path, accept)
	if err != nil {
		return 0, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // numbers stay as they are written
	if err := decoder.Decode(into); err != nil {
		return len(body), fmt.Errorf("read the answer of the API to %s: %w", path, err)
	}
	return len(body), nil
}

// Resource is one that can be listed and watched.
type Resource struct {
	Group, Version, Plural, Kind string
	Namespaced                   bool
	// Reached, if not 0, is the resourceVersion up to which changes are asked for: a relay would ask the API server first
	// what the newest one is, which may be away.
	Reached uint64
}

// ID identifies a resource in the queries of pages: "deployments.v1.apps", or "pods.v1".
func (t Resource) ID() string { return strings.TrimSuffix(t.Plural+"."+t.Version+"."+t.Group, ".") }

// Named is the ID of a resource by its name as watches have it, and its version.
func Named(resource, version string) string {
	plural, group, _ := strings.Cut(resource, ".")
	return Resource{Plural: plural, Version: version, Group: group}.ID()
}

// GR is the name of a resource as watches have it: "deployments.apps".
func (t Resource) GR() string { return strings.TrimSuffix(t.Plural+"."+t.Group, ".") }

func (t Resource) isSecret() bool { return t.Group == "" && t.Plural == "secrets" }

// path of a collection, in a namespace unless that is "", or of an object.
func (t Resource) path(namespace, name string) string {
	base := "/api/" + t.Version
	if t.Group != "" {
		base = "/apis/" + t.Group + "/" + t.Version
	}
	if t.Namespaced && namespace != "" {
		base += "/namespaces/" + url.PathEscape(namespace)
	}
	base += "/" + t.Plural
	if name != "" {
		base += "/" + url.PathEscape(name)
	}
	return base
}

// resources returns what can be listed and watched, by name, if the API knows the caller.
func (d *Dashboard) resources(r *http.Request) ([]Resource, error) {
	if err := d.knows(r); err != nil {
		return nil, err
	}
	all := d.cfg.Resources()
	slices.SortFunc(all, func(a, b Resource) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

// knows returns nil if the API knows the caller, whatever that may do.
func (d *Dashboard) knows(r *http.Request) error {
	if d.cfg.Open != nil {
		return nil
	}
	_, err := d.ask(r, "/api", mediaJSON)
	if isRefused(err, http.StatusForbidden) {
		return nil
	}
	return err
}

// changes is a page of the past.
type changes struct {
	Kind        string
	After, UpTo string
	Metadata    struct{ Continue string }
	Gaps        []gapOf
	Items       []change

	size int // bytes of the answer
}

// gapOf is a part of a page of which only the difference is known.
type gapOf struct{ After, UpTo string }

// selection is a collection, in a namespace unless that is "", or an object.
type selection struct {
	Of              Resource
	Namespace, Name string
	// mask hides the data of a Secret; nil: with a key of its own for each object. Reveals shows it.
	mask    *past.Masker
	reveals bool
}

// changes asks for a page of the past of a selection. It is nil if who serves the resource keeps none.
func (d *Dashboard) changes(r *http.Request, of selection, query url.Values, accept string) (*changes, error) {
	newest := of.Of.Reached
	if newest == 0 && (query.Has("after") || query.Has("upTo")) {
		newest = d.cfg.Newest() // which looks at every resource
	}
	if query.Has("after") && number(query.Get("after")) >= newest {
		return &changes{}, nil // the API would wait for it
	}
	if number(query.Get("upTo")) > newest {
		query.Del("upTo")
	}
	if of.Of.Reached > 0 && !query.Has("upTo") && !query.Has("until") {
		query.Set("upTo", strconv.FormatUint(newest, 10))
	}
	var page changes
	size, err := d.read(r, of.Of.path(of.Namespace, of.Name)+"?"+query.Encode(), accept, &page)
	if err != nil {
		return nil, err
	}
	if page.size = size; page.Kind != "ChangeList" {
		return nil, nil
	}
	masks := map[string]*past.Masker{} // equal values of two objects do not look equal
	for i := range page.Items {
		c := &page.Items[i]
		if c.Of = of.Of; !of.Of.isSecret() || of.reveals {
			continue
		}
		mask := of.mask
		if key := c.Namespace() + "/" + c.Name(); mask == nil {
			if mask = masks[key]; mask == nil {
				mask = past.NewMasker()
				masks[key] = mask
			}
		}
		c.Object, c.Previous = masked(mask, c.Object), masked(mask, c.Previous)
	}
	return &page, nil
}

// number is a resourceVersion in a query; 0: there is none.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // what is no number is none
	return n
}
