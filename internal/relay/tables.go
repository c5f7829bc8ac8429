package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	kindtable "github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/relay/table"
	"github.com/gapless-io/gapless/internal/wire"
)

// tables decides of which resources the mirror serves tables: of those whose rows are known to be upstream's.
//
// Of a built-in kind they are if upstream is of a version whose printers were compared with ours, and of a
// custom resource if its definition, which is mirrored meanwhile, says how they are made. In both cases upstream
// is asked once for one row, which has to be ours as well. It is asked again when its version, or how a
// definition shows its objects, has changed.
type tables struct {
	relay *Relay
	asker *table.Asker
	// doubted is when upstream last failed, or a watch of it began, in Unix nanoseconds, since it was asked
	// for its version; 0: neither. Another version may have come back.
	doubted atomic.Int64
	asked   atomic.Bool // somebody wants tables

	// mu guards what follows.
	mu      sync.Mutex
	version table.Version // upstream's; zero: not known
	known   map[kinds.GroupVersionResource]*decision
	asking  chan struct{} // of the version; nil: nobody asks
}

// decision is whether the mirror serves tables of a resource.
type decision struct {
	made chan struct{} // closed when what follows is set
	// resource shows the rows; nil: tables are passed on.
	resource *kinds.Resource
	again    time.Time // when upstream may be asked again; zero: not before something has changed

	// definition is that of a custom resource, rows and columns how it shows objects.
	definition atomic.Pointer[wire.Object]
	rows       string
	columns    []metav1.TableColumnDefinition
}

const (
	// tableWithin is how long a request for a table may wait for the decision. Who asks for the first one
	// of a resource waits for upstream in any case.
	tableWithin = 10 * time.Second
	// tableAgain is how long tables of a resource are passed on after upstream did not say how it shows
	// them.
	tableAgain = time.Minute
)

func newTables(r *Relay) (*tables, error) {
	asker, err := table.NewAsker(r.cfg.Upstream)
	if err != nil {
		return nil, err
	}
	return &tables{relay: r, asker: asker, known: map[kinds.GroupVersionResource]*decision{}}, nil
}

// of returns the decision to serve tables of a resource; nil if they are passed on. The first caller asks
// upstream, and others wait for the answer.
func (t *tables) of(ctx context.Context, resource *kinds.Resource) *decision {
	t.asked.Store(true)
	ctx, cancel := context.WithTimeout(ctx, tableWithin)
	defer cancel()
	definition, known := t.definition(ctx, resource)
	if !known {
		return nil
	}
	t.settle(ctx, resource)
	d, mine := t.claim(resource, definition)
	if mine {
		t.decide(context.WithoutCancel(ctx), d, resource, definition) // for all who wait, within the same time
	}
	select {
	case <-d.made:
	case <-ctx.Done():
		return nil
	}
	if d.resource == nil || !t.current(d) || !t.fits(d, resource.GVR(), definition) { // it has changed meanwhile
		return nil
	}
	return d
}

// current reports whether a decision was not ended by another version of upstream.
func (t *tables) current(d *decision) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[d.resource.GVR()] == d
}

// claim returns the decision about a resource. It is the caller's to make if there was none that holds.
func (t *tables) claim(resource *kinds.Resource, definition *wire.Object) (d *decision, mine bool) {
	gvr := resource.GVR()
	t.mu.Lock()
	was := t.known[gvr]
	t.mu.Unlock()
	if was != nil && t.fits(was, gvr, definition) {
		return was, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.known[gvr]; now != nil && now != was {
		return now, false // another caller makes it
	}
	d = &decision{made: make(chan struct{})}
	t.known[gvr] = d
	return d, true
}

// fits reports whether a decision, which may be in the making, is about a resource as it is now.
func (t *tables) fits(d *decision, gvr kinds.GroupVersionResource, definition *wire.Object) bool {
	select {
	case <-d.made:
	default:
		return true
	}
	if d.resource == nil && !d.again.IsZero() && time.Now().After(d.again) || !d.follows(definition, gvr.Version) {
		return false
	}
	now, _ := t.relay.live.Load().Lookup(gvr)
	return d.resource == nil || d.resource == now
}

// follows reports whether a decision was made for how a definition, or another state of it, shows objects.
func (d *decision) follows(definition *wire.Object, version string) bool {
	was := d.definition.Load()
	if was == definition {
		return true
	}
	if was == nil || definition == nil || d.columns == nil {
		return false
	}
	now, err := custom.TableOf(definition.JSON(), version)
	if err != nil || now.Rows != d.rows || !slices.Equal(now.Columns, d.columns) {
		return false
	}
	d.definition.Store(definition)
	return true
}

// decide makes a decision.
func (t *tables) decide(ctx context.Context, d *decision, resource *kinds.Resource, definition *wire.Object) {
	defer close(d.made)
	ctx, cancel := context.WithTimeout(ctx, tableWithin)
	defer cancel()
	d.definition.Store(definition)
	shown, err := t.shown(ctx, resource, definition)
	if err == nil {
		d.rows, d.columns = shown.Rows, shown.Columns
		err = t.sample(ctx, shown)
	}
	if err == nil {
		if d.resource = t.relay.show(shown); d.resource != nil {
			return
		}
		err = errUnserved
	}
	if _, final := errors.AsType[*table.DifferentError](err); !final {
		d.again = time.Now().Add(tableAgain)
	}
	t.relay.logger.InfoContext(ctx, "tables of the resource are passed on", slog.String("resource", name(resource)),
		slog.Any("cause", err))
}

// sample compares one row of upstream's with ours.
func (t *tables) sample(ctx context.Context, shown *kinds.Resource) error {
	t.relay.metrics.upstream.WithLabelValues(name(shown), "table").Inc()
	sample, err := t.asker.Ask(ctx, shown.GVR())
	if err != nil {
		return err
	}
	return sample.Compare(shown)
}

// shown returns a resource with what makes its rows. Errors: *table.DifferentError if that is not known.
func (t *tables) shown(ctx context.Context, resource *kinds.Resource, definition *wire.Object) (*kinds.Resource, error) {
	if definition != nil {
		rows, err := custom.TableOf(definition.JSON(), resource.Version)
		if err != nil {
			return nil, err
		}
		shown := *resource
		shown.Table = rows
		return &shown, nil
	}
	version, err := t.upstreamVersion(ctx)
	if err != nil {
		return nil, err
	}
	if version.Major != 1 || version.Minor < resource.RowsSince || version.Minor > kindtable.Newest {
		return nil, &table.DifferentError{
			What: fmt.Sprintf("printers than the ones that were compared: its version is %d.%d (%s)",
				version.Major, version.Minor, version.Git),
		}
	}
	return resource, nil
}

// definitions names the resource of definitions.
func definitions() kinds.GroupVersionResource {
	return kinds.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// enterDefinitions is enter for the definitions of custom resources.
func (t *tables) enterDefinitions(ctx context.Context) (visit, error) {
	all, served := t.relay.live.Load().Lookup(definitions())
	if !served {
		return visit{}, errUnserved
	}
	return t.relay.enter(ctx, all)
}

// definition returns the definition of a custom resource from the mirror of definitions, which it starts; nil for a
// built-in kind. It is not known of resources of other API servers, and when upstream refuses definitions to the
// relay.
func (t *tables) definition(ctx context.Context, resource *kinds.Resource) (definition *wire.Object, known bool) {
	if !resource.Custom {
		return nil, true
	}
	v, err := t.enterDefinitions(ctx)
	if err != nil {
		return nil, false
	}
	defer v.leave()
	return v.history.cached.Cache.Snapshot().Get(wire.Key{Name: resource.GR().String()})
}

// check returns an error if there is another state of the resource than the one whose rows were decided about:
// those of the other one are upstream's.
func (t *tables) check(d *decision) error {
	if now, _ := t.relay.live.Load().Lookup(d.resource.GVR()); now != d.resource {
		return &apiserver.FallbackError{Why: "the columns of the resource have changed"}
	}
	return nil
}

// holds reports whether a decision still holds. It is asked before each batch of events of a table.
func (t *tables) holds(ctx context.Context, d *decision) bool {
	t.settle(ctx, d.resource)
	if current := t.current(d); !current || !d.resource.Custom {
		return current
	}
	c := t.relay.known(&kinds.Resource{
		Group: definitions().Group, Version: definitions().Version, Plural: definitions().Resource,
	})
	if c == nil {
		return false
	}
	h := c.current.Load()
	if h == nil {
		return false
	}
	definition, is := h.cached.Cache.Snapshot().Get(wire.Key{Name: d.resource.GR().String()})
	return is && d.follows(definition, d.resource.Version)
}

// hold keeps definitions mirrored as long as a visit, for the watch of a table. With an error the visit has
// ended.
func (t *tables) hold(ctx context.Context, d *decision, v visit) (visit, error) {
	if !d.resource.Custom {
		return v, nil
	}
	beside, err := t.enterDefinitions(ctx)
	if err != nil {
		v.leave()
		return visit{}, &apiserver.FallbackError{Why: "the definition is not mirrored: " + err.Error()}
	}
	leave := v.leave
	v.leave = func() {
		leave()
		beside.leave()
	}
	return v, nil
}

// upstreamVersion returns upstream's version, and asks for it if it is not known.
func (t *tables) upstreamVersion(ctx context.Context) (table.Version, error) {
	t.mu.Lock()
	version := t.version
	t.mu.Unlock()
	if version != (table.Version{}) {
		return version, nil
	}
	version, err := t.asker.Version(ctx)
	if err != nil {
		return version, err
	}
	t.learned(version)
	return version, nil
}

// doubt is called when upstream fails, and when a watch of it begins.
func (t *tables) doubt() { t.doubted.Store(time.Now().UnixNano()) }

// settle asks for upstream's version if it failed and has been heard of since, by the mirror of a resource.
// What the mirror has from before is of the version that is known.
func (t *tables) settle(ctx context.Context, resource *kinds.Resource) {
	since := t.doubted.Load()
	if since == 0 {
		return
	}
	if c := t.relay.known(resource); c != nil {
		if reads := c.reads.Load(); reads != nil && reads.Status().LastContact.UnixNano() <= since {
			return
		}
	}
	t.confirm(ctx)
}

// confirm asks for upstream's version, and ends what was decided about another one. Of several callers
// one asks, and the others wait.
func (t *tables) confirm(ctx context.Context) {
	t.mu.Lock()
	if asking := t.asking; asking != nil {
		t.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
		}
		return
	}
	asking := make(chan struct{})
	t.asking = asking
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.asking = nil
		t.mu.Unlock()
		close(asking)
	}()
	ctx, cancel := context.WithTimeout(ctx, tableWithin)
	defer cancel()
	since := t.doubted.Load()
	if version, err := t.asker.Version(ctx); err == nil {
		t.learned(version)
		t.doubted.CompareAndSwap(since, 0) // what failed meanwhile is another doubt
	}
}

// learned notes upstream's version. Decisions about built-in kinds are of one version.
func (t *tables) learned(version table.Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.version == version {
		return
	}
	if t.version != (table.Version{}) {
		clear(t.known)
	}
	t.version = version
}

// refresh asks for upstream's version if somebody wants tables.
func (t *tables) refresh(ctx context.Context) {
	if t.asked.Load() {
		t.confirm(ctx)
	}
}

// show puts a resource with what makes its rows into the catalog, in the place of the same resource with
// other rows, and returns the one that is there.
func (r *Relay) show(shown *kinds.Resource) *kinds.Resource {
	r.learning.Lock()
	defer r.learning.Unlock()
	catalog := r.live.Load()
	now, served := catalog.Lookup(shown.GVR())
	if !served || now == shown || now.Rows == shown.Rows && slices.Equal(now.Columns, shown.Columns) {
		return now
	}
	all := slices.Clone(catalog.Resources())
	all[slices.Index(all, now)] = shown
	r.live.Store(kinds.NewCatalog(all...))
	return shown
}
