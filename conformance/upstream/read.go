package upstream

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Get implements storage.Interface by the registry's GET. A 404 of the registry
// does not say at which revision; then the LIST of the one object does.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	if _, err := s.codec.versioner.ParseResourceVersion(opts.ResourceVersion); err != nil {
		return err
	}
	server := s.Server()
	target := kinds.Target{Resource: server.pods, Namespace: p.namespace, Name: p.name}
	o, err := server.registry.Get(ctx, target, opts.ResourceVersion)
	var at kube.ResourceVersion
	if err != nil && wire.StatusOf(err).Code == 404 {
		o, at, err = s.look(ctx, p, opts.ResourceVersion)
	}
	switch {
	case err != nil:
		return refusal(err)
	case o != nil:
		return s.fill(ctx, o, out)
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, int64(at))
}

// look lists one object, nil when there is none, and says at which
// resourceVersion that was.
func (s *Storage) look(ctx context.Context, p place, rv string) (*wire.Object, kube.ResourceVersion, error) {
	q := url.Values{"fieldSelector": {one(p).String()}}
	if rv != "" {
		q.Set("resourceVersion", rv)
		q.Set("resourceVersionMatch", string(wire.MatchNotOlderThan))
	}
	list, err := s.list(ctx, place{}, q)
	if err != nil {
		return nil, 0, err
	}
	for o, err := range list.Items {
		return o, list.ResourceVersion, err
	}
	return nil, list.ResourceVersion, nil
}

// one selects the object at a place, as upstream's REST layer does it.
func one(p place) fields.Selector {
	return fields.AndSelectors(
		fields.OneTermEqualSelector("metadata.name", p.name), fields.OneTermEqualSelector("metadata.namespace", p.namespace))
}

// GetList implements storage.Interface by the registry's LIST. What upstream's
// storage.ValidateListOptions refuses must be refused by gapless too; the caller
// then gets upstream's error, because the texts of that layer are not those of a
// server.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	prepared, err := storage.PrepareKey(resourcePrefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	_, _, theirs := storage.ValidateListOptions(prepared, s.codec.versioner, opts)
	p, q, err := request(key, opts)
	if err != nil {
		return err
	}
	list, err := s.list(ctx, p, q)
	switch {
	case theirs != nil && err == nil:
		return fmt.Errorf("gapless accepts what upstream refuses: %w", theirs)
	case theirs != nil:
		return theirs
	case err != nil:
		return refusal(err)
	}
	var items []runtime.Object
	for o, err := range list.Items {
		if err != nil {
			return refusal(err)
		}
		pod := &example.Pod{}
		if err := s.fill(ctx, o, pod); err != nil {
			return err
		}
		items = append(items, pod)
	}
	if err := meta.SetList(out, items); err != nil {
		return fmt.Errorf("make a list: %w", err)
	}
	return s.codec.versioner.UpdateList(out, uint64(list.ResourceVersion), list.Continue, list.Remaining)
}

// list is a LIST of the registry with a query.
func (s *Storage) list(ctx context.Context, p place, q url.Values) (*wire.List, error) {
	o, err := wire.ParseListOptions(q, false)
	if err != nil {
		return nil, err
	}
	server := s.Server()
	return server.registry.List(ctx, kinds.Target{Resource: server.pods, Namespace: p.namespace}, o)
}

// request returns the collection that a key and its options are about, and the
// query of a client that wants the same.
func request(key string, opts storage.ListOptions) (place, url.Values, error) {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	selector := fields.Everything()
	if opts.Predicate.Field != nil {
		selector = opts.Predicate.Field
	}
	var where place
	var err error
	if opts.Recursive {
		where, err = collectionOf(key)
		set("continue", opts.Predicate.Continue)
		if opts.Predicate.Limit > 0 {
			set("limit", strconv.FormatInt(opts.Predicate.Limit, 10))
		}
	} else {
		var p place
		p, err = placeOf(key)
		selector = fields.AndSelectors(one(p), selector)
	}
	if opts.Predicate.Label != nil {
		set("labelSelector", opts.Predicate.Label.String())
	}
	set("fieldSelector", selector.String())
	set("resourceVersion", opts.ResourceVersion)
	set("resourceVersionMatch", string(opts.ResourceVersionMatch))
	return where, q, err
}

// fill decodes an object as a client would, from the bytes that it is sent.
func (s *Storage) fill(ctx context.Context, o *wire.Object, out runtime.Object) error {
	if err := runtime.SetZeroValue(out); err != nil {
		return fmt.Errorf("show %s: %w", o.Key(), err)
	}
	_, err := s.codec.decode(ctx, o.Key().String(), o.JSON(), out)
	return err
}

// Stats implements storage.Interface; sizes are not estimated.
func (s *Storage) Stats(context.Context) (storage.Stats, error) {
	server := s.Server()
	return storage.Stats{ObjectCount: int64(server.registry.Stats()[server.pods.GR().String()].Objects)}, nil
}

// ReadinessCheck implements storage.Interface.
func (s *Storage) ReadinessCheck() error { return s.Server().registry.Ready() }

// RequestWatchProgress implements storage.Interface: there is nothing to do, the
// clock of the cache moves with every write.
func (*Storage) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface by a consistent LIST.
func (s *Storage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	list, err := s.list(ctx, place{}, url.Values{"limit": {"1"}})
	if err != nil {
		return 0, refusal(err)
	}
	return uint64(list.ResourceVersion), nil
}

// EnableResourceSizeEstimation implements storage.Interface; sizes are not estimated.
func (*Storage) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (s *Storage) CompactRevision() int64 { return s.Server().store.Compacted() }
