// Package aggregator passes requests for the versions of groups that other API servers serve on to them: upstream's
// aggregation layer (k8s.io/kube-aggregator).
//
// An [Aggregator] follows the APIServices. Each that names a Service makes a [Backend], which passes requests on with
// the name of their user in the headers of a front proxy. [Aggregator.Versions] are what discovery and OpenAPI show of
// them: documents that the servers behind are asked for in the background, one after another for each APIService, so
// that no request waits for a server that is away.
//
// What several servers of the same objects must not all do, [Aggregator.RunLeading] does: it keeps the condition
// Available of each APIService (available.go), and an APIService for each version that this server serves itself
// (register.go).
package aggregator

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster is what an Aggregator needs of a registry. Its methods are not called before Run and requests.
type Cluster interface {
	hook.Cluster
	// UnknownOf returns an error if an object may exist that cannot be read.
	UnknownOf(gr kinds.GroupResource, namespace, name string) error
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Update(ctx context.Context, t kinds.Target, body []byte, o metav1.UpdateOptions) (wire.Written, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
}

// Config configures an Aggregator. Cluster, Live and Logger are required.
type Config struct {
	Cluster Cluster
	Live    *kinds.Live
	// CertFile and KeyFile are the client certificate by which the servers behind trust what is said about users
	// (--proxy-client-cert-file); "": requests bring none. The files are read again when they change.
	CertFile, KeyFile string
	// Registers says that the versions that this server serves itself have APIServices.
	Registers bool
	// Shared says that other programs than this one may make APIServices for versions that they serve, on the same
	// store: those for versions that are not served here stay.
	Shared bool
	Logger *slog.Logger
}

// Aggregator knows which versions of groups other servers serve. It is safe for concurrent use. It is a
// registry.Follower.
type Aggregator struct {
	cfg Config
	// some says that there is a Backend: most servers have none, and their requests pay for no more than this.
	some atomic.Bool

	looks  loop // at discovery documents
	reads  loop // of documents of OpenAPI v2
	checks loop // of availability
	writes loop // of APIServices for what is served here

	// mu guards what follows.
	mu       sync.Mutex
	services map[string]*service // all APIServices, by name
	backends map[schema.GroupVersion]*Backend
	using    map[wire.Key]map[string]struct{} // names of APIServices by their Service
	answers  map[kinds.ServiceReference]*answer
	versions *Versions // nil: it has to be made
	ceased   map[ceased]int
	registered
}

// service is an APIService.
type service struct {
	stored  *wire.Object
	decoded *apiregistrationv1.APIService // nil: it cannot be decoded
	backend *Backend                      // nil: the version is served here
	// marked is when it last changed: documents that are older are looked at again.
	marked time.Time
	found  *discoveryv2.APIVersionDiscovery // nil: not looked at yet
	paths  map[string]string                // of documents of OpenAPI v3, by their names
	// swagger is the document of OpenAPI v2; nil: there is none yet.
	swagger *Swagger
	// unusable is how often in a row the answer about OpenAPI v2 could not be used.
	unusable int
}

// New returns an aggregator without APIServices. It starts no goroutine and opens no connection.
func New(cfg Config) *Aggregator {
	return &Aggregator{
		cfg: cfg, services: map[string]*service{}, backends: map[schema.GroupVersion]*Backend{},
		using: map[wire.Key]map[string]struct{}{}, answers: map[kinds.ServiceReference]*answer{},
		registered: newRegistered(), ceased: map[ceased]int{},
	}
}

func apiServices() kinds.GroupResource {
	return kinds.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
}

func coreServices() kinds.GroupResource { return kinds.GroupResource{Resource: "services"} }

func endpointSlices() kinds.GroupResource {
	return kinds.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
}

// Follows implements registry.Follower.
func (a *Aggregator) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{apiServices(), coreServices(), endpointSlices(), kinds.Definitions()}
}

// Replace implements registry.Follower.
func (a *Aggregator) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	switch gr {
	case apiServices():
		seen := map[string]bool{}
		for _, o := range objects {
			seen[o.Key().Name] = true
			a.change(o, false)
		}
		a.mu.Lock()
		var gone []*wire.Object
		for name, s := range a.services {
			if !seen[name] {
				gone = append(gone, s.stored)
			}
		}
		a.mu.Unlock()
		for _, o := range gone {
			a.change(o, true)
		}
	case kinds.Definitions():
		a.replaceDefinitions(objects)
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, names := range a.using {
			a.check(names)
		}
	}
}

// Change implements registry.Follower.
func (a *Aggregator) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	switch gr {
	case apiServices():
		a.change(o, deleted)
	case kinds.Definitions():
		a.changeDefinition(o, deleted)
	default:
		if !a.some.Load() {
			return
		}
		key := o.Key()
		if gr == endpointSlices() {
			key.Name = o.Labels()["kubernetes.io/service-name"]
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.check(a.using[key])
	}
}

func (a *Aggregator) check(names map[string]struct{}) {
	for name := range names {
		a.checks.add(name)
	}
}

// change takes the new state of an APIService.
func (a *Aggregator) change(o *wire.Object, deleted bool) {
	name := o.Key().Name
	var now *service
	if !deleted {
		now = &service{stored: o, marked: time.Now()}
		var typed apiregistrationv1.APIService
		if err := json.Unmarshal(o.JSON(), &typed); err == nil {
			now.decoded = &typed
		} else {
			a.cfg.Logger.Error("an APIService cannot be decoded", slog.String("name", name), slog.Any("error", err))
		}
	}
	was := a.of(name) // nobody else replaces it
	same := a.connect(was, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(name, was)
	switch {
	case same:
		now.found, now.paths, now.swagger, now.unusable = was.found, was.paths, was.swagger, was.unusable
	case was != nil && was.backend != nil:
		was.backend.close()
		delete(a.answers, was.backend.reference()) // others of the same Service ask again
	}
	a.rememberLocked(name, now)
	a.versions = nil
	a.some.Store(len(a.backends) > 0)
	a.writes.add(name)
	if was == nil || now == nil || was.decoded == nil || now.decoded == nil ||
		!reflect.DeepEqual(was.decoded.Spec, now.decoded.Spec) || now.backend == nil {
		a.checks.add(name) // not for a new status, which this server, or another one, has written
	}
	if now != nil && now.backend != nil {
		a.looks.add(name)
		a.reads.add(name)
	}
}

// connect gives an APIService the server that it names, and reports whether it is the one of its former state.
func (a *Aggregator) connect(was, now *service) (same bool) {
	if now == nil || now.decoded == nil || now.decoded.Spec.Service == nil ||
		now.decoded.Spec.Group == "" || now.decoded.Spec.Group == apiServices().Group {
		return false // these groups are always served here, as upstream, so that what is wrong can be mended
	}
	if was != nil && was.backend != nil && was.backend.serves(now.decoded) {
		now.backend = was.backend.withStatus(now.decoded)
		return true
	}
	now.backend = newBackend(&a.cfg, now.decoded)
	return false
}

// forgetLocked removes what was made of an APIService.
func (a *Aggregator) forgetLocked(name string, was *service) {
	if was == nil {
		return
	}
	delete(a.services, name)
	if was.backend == nil {
		return
	}
	delete(a.backends, was.backend.Version())
	key := was.backend.serviceKey()
	delete(a.using[key], name)
	if len(a.using[key]) == 0 {
		delete(a.using, key)
	}
}

func (a *Aggregator) rememberLocked(name string, now *service) {
	if now == nil {
		return
	}
	a.services[name] = now
	if now.backend == nil {
		return
	}
	a.backends[now.backend.Version()] = now.backend
	key := now.backend.serviceKey()
	if a.using[key] == nil {
		a.using[key] = map[string]struct{}{}
	}
	a.using[key][name] = struct{}{}
}

// Behind returns the server behind that serves a path, given as its decoded segments: what is below the version of a
// group, and the document of OpenAPI v3 about it. Nil: this server serves it, or nobody does.
func (a *Aggregator) Behind(path []string) *Backend {
	if !a.some.Load() {
		return nil
	}
	if len(path) >= 2 && path[0] == "openapi" && path[1] == "v3" {
		path = path[2:]
		if len(path) != 3 { //nolint:mnd // apis/group/version
			return nil
		}
	}
	if len(path) < 3 || path[0] != "apis" {
		return nil
	}
	gv := schema.GroupVersion{Group: path[1], Version: path[2]}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.backends[gv]
}

// Unknown returns an error if it is not known whether another server serves a version of a group. It is for those
// that this server does not serve: a client that gets 404 would take their objects for deleted.
func (a *Aggregator) Unknown(group, version string) error {
	return a.cfg.Cluster.UnknownOf(apiServices(), "", version+"."+group)
}

// Any reports whether there is a server behind.
func (a *Aggregator) Any() bool { return a.some.Load() }

// Run asks the servers behind for their documents until ctx ends. It is called once.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.closeBackends()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // it is Run's, and ends with ctx
		_ = a.reads.run(ctx, how{workers: 1, first: firstLook, last: lookEvery, names: a.remote(), do: a.lookAtSwagger})
	})
	return a.looks.run(ctx, how{workers: lookers, first: firstLook, last: lookEvery, names: a.remote(), do: a.look})
}

func (a *Aggregator) closeBackends() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.backends {
		b.close()
	}
}

// remote returns the names of the APIServices that name a Service.
func (a *Aggregator) remote() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, b := range a.backends {
		names = append(names, b.name)
	}
	return names
}

// all returns the names of all APIServices.
func (a *Aggregator) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, 0, len(a.services))
	for name := range a.services {
		names = append(names, name)
	}
	return names
}

// of returns an APIService, which the caller does not change; nil if there is none.
func (a *Aggregator) of(name string) *service {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.services[name]
}
