package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// managed is the label of APIServices that servers make for what they serve themselves, as kube-aggregator's
// pkg/controllers/autoregister does. They are made, and corrected, at a start (onStart), or at any time (always).
const (
	managed = "kube-aggregator.kubernetes.io/automanaged"
	onStart = "onstart"
	always  = "true"
)

// How APIServices are written.
const (
	writers    = 5
	starters   = 64 // at a start, when there are no other writers
	firstWrite = 100 * time.Millisecond
	lastWrite  = time.Minute
)

// registered are the versions that this server serves itself. Aggregator.mu guards it.
type registered struct {
	// changed has the definitions that were not looked at since they changed, nil if they were deleted, and defined the
	// versions that the others serve.
	changed map[string]*wire.Object
	defined map[string][]schema.GroupVersion
	// custom counts the definitions that serve a version.
	custom map[schema.GroupVersion]int
	// there are the names of the APIServices that were there at the start, and synced those that were looked at since.
	there, synced map[string]bool
}

func newRegistered() registered {
	return registered{
		changed: map[string]*wire.Object{}, defined: map[string][]schema.GroupVersion{}, custom: map[schema.GroupVersion]int{},
		synced: map[string]bool{},
	}
}

func (a *Aggregator) replaceDefinitions(objects []*wire.Object) {
	if !a.cfg.Registers {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.defined {
		a.changed[name] = nil
	}
	for _, o := range objects {
		a.changed[o.Key().Name] = o
	}
	a.writes.add("")
}

// changeDefinition remembers that a definition has changed. It is decoded later: it may be large.
func (a *Aggregator) changeDefinition(o *wire.Object, deleted bool) {
	if !a.cfg.Registers {
		return
	}
	name := o.Key().Name
	if deleted {
		o = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed[name] = o
	a.writes.add("")
}

// readDefinitions looks at the definitions that have changed, and returns the names of the APIServices that this is
// about. One goroutine calls it at a time.
func (a *Aggregator) readDefinitions() (names []string) {
	a.mu.Lock()
	changed := a.changed
	a.changed = map[string]*wire.Object{}
	a.mu.Unlock()
	serves := make(map[string][]schema.GroupVersion, len(changed))
	for definition, o := range changed {
		serves[definition] = versionsOf(o)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for definition, now := range serves {
		was := a.defined[definition]
		if slices.Equal(was, now) {
			continue
		}
		a.defined[definition] = now
		if len(now) == 0 {
			delete(a.defined, definition)
		}
		for _, gv := range was {
			if a.custom[gv]--; a.custom[gv] == 0 {
				delete(a.custom, gv)
			}
			names = append(names, nameOf(gv))
		}
		for _, gv := range now {
			a.custom[gv]++
			names = append(names, nameOf(gv))
		}
	}
	return names
}

// versionsOf returns the versions that a definition serves.
func versionsOf(o *wire.Object) (all []schema.GroupVersion) {
	if o == nil {
		return nil
	}
	var definition struct {
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if json.Unmarshal(o.JSON(), &definition) != nil {
		return nil
	}
	for _, v := range definition.Spec.Versions {
		if v.Served {
			all = append(all, schema.GroupVersion{Group: definition.Spec.Group, Version: v.Name})
		}
	}
	return all
}

// nameOf returns the name of the APIService of a version.
func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

func versionOf(name string) schema.GroupVersion {
	version, group, _ := strings.Cut(name, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// builtIn returns the APIServices of the built-in versions, by name. The group of APIServices has none, as upstream.
func (a *Aggregator) builtIn() map[string]*apiregistrationv1.APIService {
	all := map[string]*apiregistrationv1.APIService{}
	for _, g := range a.cfg.Live.Load().Groups() {
		for _, v := range g.Versions {
			if v.Resources[0].Custom || v.Group == apiServices().Group {
				continue
			}
			group, version := v.Priority()
			o := local(schema.GroupVersion{Group: v.Group, Version: v.Version}, group, version)
			o.Labels = map[string]string{managed: onStart}
			all[o.Name] = o
		}
	}
	return all
}

func local(gv schema.GroupVersion, group, version int32) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiregistrationv1.SchemeGroupVersion.String(), Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(gv)},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: group, VersionPriority: version,
		},
	}
}

// wanted returns the APIService that there is to be of a name; nil: none.
func (a *Aggregator) wanted(builtIn map[string]*apiregistrationv1.APIService, name string) *apiregistrationv1.APIService {
	if o := builtIn[name]; o != nil {
		return o
	}
	gv := versionOf(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.custom[gv] == 0 {
		return nil
	}
	group, version := kinds.CustomPriority()
	o := local(gv, group, version)
	o.Labels = map[string]string{managed: always}
	return o
}

// Make makes the APIServices of the versions that this server serves. It is called once, before requests are served, and
// not if Config.Registers is not set. Errors are left to RunLeading.
func (a *Aggregator) Make(ctx context.Context) {
	builtIn, names := a.begin()
	var g errgroup.Group
	g.SetLimit(starters)
	for _, name := range names {
		g.Go(func() error { return a.register(ctx, builtIn, name) })
	}
	_ = g.Wait() // RunLeading tries again
}

// begin returns the built-in APIServices, and the names of all that are there or are to be.
func (a *Aggregator) begin() (builtIn map[string]*apiregistrationv1.APIService, names []string) {
	names = append(a.readDefinitions(), a.all()...)
	builtIn = a.builtIn()
	for name := range builtIn {
		names = append(names, name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for gv := range a.custom {
		names = append(names, nameOf(gv))
	}
	if a.there == nil {
		a.there = map[string]bool{}
		for name := range a.services {
			a.there[name] = true
		}
	}
	slices.Sort(names)
	return builtIn, slices.Compact(names)
}

// RunLeading keeps APIServices until ctx ends: their conditions, and those of what this server serves itself. It can be
// called again when it has returned.
func (a *Aggregator) RunLeading(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // it is RunLeading's, and ends with ctx
		_ = a.checks.run(ctx, how{workers: checkers, first: firstCheck, last: checkEvery, names: a.all(), do: a.checkAvailable})
	})
	if !a.cfg.Registers {
		return nil
	}
	builtIn, names := a.begin()
	return a.writes.run(ctx, how{
		workers: writers, first: firstWrite, last: lastWrite, names: append(names, ""),
		do: func(ctx context.Context, name string) (time.Duration, error) {
			if name != "" {
				return 0, a.register(ctx, builtIn, name)
			}
			for _, changed := range a.readDefinitions() {
				a.writes.add(changed)
			}
			return 0, nil
		},
	})
}

// register makes, corrects or deletes an APIService, by the rules of kube-aggregator's autoregister checkAPIService.
func (a *Aggregator) register(ctx context.Context, builtIn map[string]*apiregistrationv1.APIService, name string) (err error) {
	if err := a.cfg.Cluster.UnknownOf(apiServices(), "", name); err != nil { // before the look
		return err
	}
	want := a.wanted(builtIn, name)
	a.mu.Lock()
	synced, there := a.synced[name], a.there[name]
	var has *apiregistrationv1.APIService
	if s := a.services[name]; s != nil {
		if has = s.decoded; has == nil {
			has = &apiregistrationv1.APIService{} // it is nobody's
		}
	}
	a.mu.Unlock()
	defer func() {
		if err == nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.synced[name] = true
		}
	}()
	switch {
	case has == nil && want == nil, want != nil && want.Labels[managed] == onStart && synced:
		return nil
	case has == nil:
		return a.create(ctx, want)
	}
	switch has.Labels[managed] {
	case onStart:
		if !there || synced || want == nil && a.cfg.Shared {
			return nil
		}
	case always:
	default:
		return nil
	}
	switch {
	case want == nil:
		return a.remove(ctx, has)
	case reflect.DeepEqual(has.Spec, want.Spec):
		return nil
	}
	corrected := has.DeepCopy()
	corrected.Spec = want.Spec
	return a.update(ctx, corrected, "")
}

func (a *Aggregator) create(ctx context.Context, o *apiregistrationv1.APIService) error {
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode APIService %s: %w", o.Name, err)
	}
	_, err = a.cfg.Cluster.Create(ctx, a.target(""), body, metav1.CreateOptions{FieldManager: manager})
	if hasReason(err, metav1.StatusReasonAlreadyExists) {
		return nil // it is due again
	}
	return err
}

func (a *Aggregator) remove(ctx context.Context, o *apiregistrationv1.APIService) error {
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID))}
	_, err := a.cfg.Cluster.Delete(ctx, a.target(o.Name), only)
	if hasReason(err, metav1.StatusReasonNotFound) || hasReason(err, metav1.StatusReasonConflict) {
		return nil // as above
	}
	return err
}

func hasReason(err error, reason metav1.StatusReason) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == reason
}
