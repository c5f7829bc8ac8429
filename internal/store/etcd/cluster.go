package etcd

import (
	"context"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// checkCluster compares the cluster with the one in the log; the first one is recorded.
func (s *Store) checkCluster(ctx context.Context, id uint64) error {
	record, err := s.loadOne(ctx, clusterKey)
	if err != nil {
		return fmt.Errorf("read which cluster the log is of: %w", err)
	}
	found := cluster{id: id, prefix: s.prefix}
	if record == nil {
		end, err := s.begin(ctx)
		if err != nil {
			return err
		}
		defer end()
		return s.writeOwn(ctx, clusterKey, found.encode())
	}
	known, err := decodeCluster(record)
	if err != nil {
		return fmt.Errorf("%q: %w", clusterKey, err)
	}
	if known != found {
		return &HistoryError{Dir: s.opts.Dir, OtherCluster: known.id != found.id, Found: fmt.Sprintf(
			"the log is of the cluster %x with the prefix %s, and the servers are of the cluster %x, with the prefix %s",
			known.id, known.prefix, found.id, found.prefix)}
	}
	return nil
}

// loadCluster finds out which cluster the log is of, so that answers of another one to reads before the first session are not
// taken for those of a cluster that has gone back.
func (s *Store) loadCluster(ctx context.Context) error {
	record, err := s.loadOne(ctx, clusterKey)
	if err != nil {
		return fmt.Errorf("read which cluster the log is of: %w", err)
	}
	if record == nil {
		return nil
	}
	known, err := decodeCluster(record)
	if err == nil {
		s.cluster.Store(known.id)
	}
	return nil // the first session says what is wrong with it
}

// checkAnswer compares the cluster of an answer with that of the log, once that is known: the servers
// may be of several clusters, and a connection that is made again can lead to another one.
func (s *Store) checkAnswer(header *etcdserverpb.ResponseHeader) error {
	if header == nil {
		return nil
	}
	known, found := s.cluster.Load(), header.ClusterId
	if known == 0 || found == 0 || known == found { // what clientv3 answers itself has none
		return nil
	}
	err := &HistoryError{Dir: s.opts.Dir, OtherCluster: true, Found: fmt.Sprintf(
		"the log is of the cluster %x, and one of the servers has answered for the cluster %x", known, found)}
	s.fail(err)
	return err
}

// clustersOfServers returns of which cluster each server is, by its URL. It waits for those that do not answer as long as
// for an answer of etcd.
func (s *Store) clustersOfServers(ctx context.Context) map[string]uint64 {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	all := map[string]uint64{}
	var mu sync.Mutex // guards all
	var wg sync.WaitGroup
	// They are clustersOfServers's, and end with ctx.
	for _, url := range s.opts.Cluster.Servers {
		wg.Go(func() {
			status, err := s.client.Status(ctx, url)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all[url] = status.Header.ClusterId
		})
	}
	wg.Wait()
	return all
}
