package cases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// alone is an etcd with its own client, without a server.
type alone struct {
	client *clientv3.Client
	run    Run    // without profiles: the server does nothing
	value  string // of an object that a server has written
}

// beneath returns the run's etcd. below is the prefix of the keys of an object whose bytes are written.
func (r *Run) beneath(ctx context.Context, below string) (*alone, error) {
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{r.store.URL}})
	if err != nil {
		return nil, fmt.Errorf("make a client of etcd: %w", err)
	}
	found, err := client.Get(ctx, below, clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil || len(found.Kvs) == 0 {
		return nil, errors.Join(fmt.Errorf("etcd has nothing below %s", below), err, client.Close())
	}
	a := &alone{client: client, run: *r, value: string(found.Kvs[0].Value)}
	a.run.profiles = ""
	return a, nil
}

// create creates a key as servers do.
func (a *alone) create(ctx context.Context, key string) error {
	_, err := a.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, a.value)).Else(clientv3.OpGet(key)).Commit()
	return err
}

// createdAlone lets clients of etcd create keys, with the bytes of an object that is there.
func (r *Run) createdAlone(ctx context.Context, s *Sample, clients int) (err error) {
	a, err := r.beneath(ctx, "/registry/configmaps/default/")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.client.Close()) }()
	var ops int64
	u, err := a.run.measure(ctx, func() (err error) {
		ops, err = during(ctx, r.Scale.For, clients, func(worker, i int) error {
			return a.create(ctx, fmt.Sprintf("/alone/configmaps/default/%s-%03d-%06d", r.unique(), worker, i))
		})
		return err
	})
	if err != nil {
		return err
	}
	s.Values["alone"] = float64(ops) / u.wall.Seconds()
	s.Values["slower"] = s.Values["alone"] / s.Values["rate"]
	s.Values["alone-etcd"] = float64(u.store.Microseconds()) / float64(ops)
	return nil
}

// watchedAlone lets a client of etcd write at loadPace while others watch, each with one watch: no server needs less of
// etcd than that. It goes on while the servers are idle.
func (r *Run) watchedAlone(ctx context.Context, s *Sample, watchers, writes int) (err error) {
	a, err := r.beneath(ctx, "/registry/"+loadGroup(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.client.Close()) }()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range watchers {
		watcher, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{r.store.URL}})
		if err != nil {
			return fmt.Errorf("make a client of etcd: %w", err)
		}
		events := watcher.Watch(ctx, "/alone/", clientv3.WithPrefix())
		wg.Go(func() { // ends with ctx, and so does the client
			for range events {
				continue
			}
			_ = watcher.Close()
		})
	}
	u, err := a.run.measure(ctx, func() error {
		tick := time.NewTicker(loadPace)
		defer tick.Stop()
		for i := range writes {
			if err := a.create(ctx, fmt.Sprintf("/alone/%s-%06d", r.unique(), i)); err != nil {
				return err
			}
			<-tick.C
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Values["alone-etcd"] = float64(u.store.Microseconds()) / float64(writes)
	s.Values["alone-sent"] = u.sent / 1000 / float64(writes)
	return nil
}
