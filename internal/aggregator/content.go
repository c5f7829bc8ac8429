package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// How the content of namespaces is deleted.
const (
	// deletions is how many namespaces one server behind is asked about at a time.
	deletions = 4
	// deleteWithin bounds a request, resourceWithin all about one resource in one namespace: what is left then is left to
	// the next time.
	deleteWithin   = 30 * time.Second
	resourceWithin = 2 * time.Minute
	// pageSize is how many objects a list has at once.
	pageSize = 500
)

// MayHaveContent implements lifecycle.Elsewhere. It reports whether servers behind may have objects in namespaces:
// there are some, or it is not known.
func (a *Aggregator) MayHaveContent() bool {
	return a.some.Load() || a.cfg.Cluster.UnknownOf(apiServices(), "", "") != nil
}

// DeleteContent implements lifecycle.Elsewhere. It deletes what servers behind have in a namespace, and returns what
// is left. It does what upstream's namespace controller does, of which discovery is the same (kubernetes
// pkg/controller/namespace/deletion), in the name of this server. It waits for the servers, and ends with ctx.
func (a *Aggregator) DeleteContent(ctx context.Context, namespace string) wire.Content {
	c := wire.Content{Objects: map[schema.GroupResource]int{}, Finalizers: map[string]int{}}
	if err := a.cfg.Cluster.UnknownOf(apiServices(), "", ""); err != nil { // before the look
		c.Failed = append(c.Failed, err)
	}
	var stale []string
	for _, of := range a.deletable(&stale) {
		if err := of.delete(ctx, namespace, &c); err != nil {
			c.Failed = append(c.Failed, err)
		}
	}
	if len(stale) > 0 { // client-go discovery.ErrGroupDiscoveryFailed
		slices.Sort(stale)
		c.Undiscovered = fmt.Errorf("Discovery failed for some groups, %d failing: "+ //nolint:staticcheck // upstream's text
			"unable to retrieve the complete list of server APIs: %s", len(stale), strings.Join(stale, ", "))
	}
	return c
}

// deletable returns the namespaced resources of servers behind of which objects can be deleted, each once: in the first
// version of its group that has it. It adds to stale what is said of versions that are not known.
func (a *Aggregator) deletable(stale *[]string) (all []contents) {
	versions := a.Versions()
	if versions == nil {
		return nil
	}
	ordered := slices.Clone(versions.All)
	slices.SortStableFunc(ordered, func(a, b Version) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), cmp.Compare(b.Priority, a.Priority))
	})
	seen := map[schema.GroupResource]bool{}
	for _, v := range ordered {
		if v.Discovery == nil || v.Discovery.Freshness == discoveryv2.DiscoveryFreshnessStale {
			*stale = append(*stale, fmt.Sprintf("%s: stale GroupVersion discovery: %s", v.GroupVersion, v.GroupVersion))
			continue
		}
		by := a.backendOf(v.GroupVersion)
		for i := range v.Discovery.Resources {
			r := &v.Discovery.Resources[i]
			gvr := v.WithResource(r.Resource)
			if by == nil || seen[gvr.GroupResource()] || r.Scope != discoveryv2.ScopeNamespace ||
				!slices.Contains(r.Verbs, "delete") {
				continue
			}
			seen[gvr.GroupResource()] = true
			all = append(all, contents{
				Backend: by, gvr: gvr, lists: slices.Contains(r.Verbs, "list"), all: slices.Contains(r.Verbs, "deletecollection"),
			})
		}
	}
	return all
}

func (a *Aggregator) backendOf(gv schema.GroupVersion) *Backend {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.backends[gv]
}

// contents are the objects of a resource, and whether they can be listed, and deleted in one request.
type contents struct {
	*Backend

	gvr        schema.GroupVersionResource
	lists, all bool
}

// delete deletes those in a namespace, and counts what is left. A server has a few of these calls at a time; more wait.
func (of contents) delete(ctx context.Context, namespace string, count *wire.Content) error {
	select {
	case of.places <- struct{}{}:
		defer func() { <-of.places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, resourceWithin)
	defer cancel()
	deleted := false
	if of.all {
		_, err := of.request(ctx, http.MethodDelete, namespace, nil)
		if err != nil && !isMissing(err) {
			return err
		}
		deleted = err == nil
	}
	if !of.lists {
		return nil
	}
	if !deleted {
		err := of.each(ctx, namespace, func(o *metav1.PartialObjectMetadata) error {
			if _, err := of.request(ctx, http.MethodDelete, namespace+"/"+o.Name, nil); err != nil && !isMissing(err) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	left, held := 0, false
	err := of.each(ctx, namespace, func(o *metav1.PartialObjectMetadata) error {
		left++
		for _, finalizer := range o.Finalizers {
			count.Finalizers[finalizer]++
			held = true
		}
		return nil
	})
	if left > 0 {
		count.Objects[of.gvr.GroupResource()] += left
	}
	if err == nil && left > 0 && !held {
		err = fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", namespace, of.gvr)
	}
	return err
}

// isMissing reports whether a server does not have what it was asked for: not the object, or not the verb.
func isMissing(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// each calls do for the objects in a namespace.
func (of contents) each(ctx context.Context, namespace string, do func(*metav1.PartialObjectMetadata) error) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		body, err := of.request(ctx, http.MethodGet, namespace, query)
		if isMissing(err) {
			return nil // the verb is not supported
		}
		if err != nil {
			return err
		}
		page, err := readPage(body)
		if err != nil {
			return fmt.Errorf("read the list of %s: %w", of.gvr.Resource, err)
		}
		for i := range page.Items {
			if err := do(&page.Items[i]); err != nil {
				return err
			}
		}
		if page.Continue == "" {
			return nil
		}
		query.Set("continue", page.Continue)
	}
}

// readPage reads a page of a list. An object without a name is an error: it could not be deleted by it.
func readPage(body []byte) (*metav1.PartialObjectMetadataList, error) {
	var page metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	for i := range page.Items {
		if name := page.Items[i].Name; len(content.IsPathSegmentName(name)) > 0 || name == "" {
			return nil, fmt.Errorf("an object has the name %q", name)
		}
	}
	return &page, nil
}

// partial is the form in which objects are listed: servers that do not know it answer with the objects.
const partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// request asks for what is in a namespace, or for NAMESPACE/NAME. Errors: *apierrors.StatusError, what was answered.
func (of contents) request(ctx context.Context, method, in string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	namespace, name, _ := strings.Cut(in, "/")
	parts := []string{"apis", of.gvr.Group, of.gvr.Version, "namespaces", namespace, of.gvr.Resource}
	q := question{method: method, query: query.Encode(), header: http.Header{"Accept": {partial}}}
	if name != "" {
		parts = append(parts, name)
	}
	if method == http.MethodDelete {
		q.body = `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`
		q.header = http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}
	}
	q.path = "/" + strings.Join(parts, "/")
	got := got{code: http.StatusServiceUnavailable}
	var err error
	if of.available {
		got, err = of.do(ctx, serverUser(), q)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errTooLarge):
		return nil, err
	case err != nil: // the proxy would answer so
		of.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "delete the content of a namespace behind",
			slog.String("apiservice", of.name), slog.Any("error", err))
		got.code = http.StatusServiceUnavailable
	case got.code >= http.StatusOK && got.code <= http.StatusPartialContent:
		return got.body, nil
	}
	var status metav1.Status
	if json.Unmarshal(got.body, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, apierrors.NewGenericServerResponse(got.code, method, schema.GroupResource{}, "", "unknown", 0, true)
}

// serverUser is this server, as upstream calls itself.
func serverUser() user.Info {
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
}
