package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/gapless-io/gapless/conformance/crash/load"
	"github.com/gapless-io/gapless/conformance/crash/program"
)

// bump is by how much a snapshot is restored above its revision: more than what was written since it was taken.
const bump = 1_000_000

// era is the time between two restores: what was seen before one says nothing about what comes after it.
type era struct {
	number int
	begin  time.Time
	faults int      // before it
	taken  []string // the files of snapshots, the last two
}

// eraEnds reports whether etcd is to be restored now.
func (r *run) eraEnds() bool {
	lasts := eraLasts
	if r.cfg.For > 0 {
		lasts = min(lasts, r.cfg.For/2)
	}
	return r.report.Faults-r.era.faults >= eraFaults || time.Since(r.era.begin) > lasts
}

// runEra lets clients work and things fail until the end of the era, or of all.
func (r *run) runEra(ctx context.Context) error {
	r.era.begin, r.era.faults = time.Now(), r.report.Faults
	var urls []string
	for _, replica := range r.cluster.replicas {
		urls = append(urls, replica.url())
	}
	var err error
	r.load, err = load.New(ctx, load.Config{
		Server: r.cluster.replicas[0].server, Record: r.record, Seed: r.cfg.Seed, Writers: r.cfg.Writers,
		Readers: r.cfg.Readers, Watchers: r.cfg.Watchers, Pause: r.cfg.Pause, Calm: r.cfg.Pause, Epoch: 1000 * r.era.number,
		Several: &load.Several{
			Pick: r.pick, All: urls, Patience: r.cfg.patience(), Acknowledged: r.outage.acknowledged, WentOn: r.moves.wentOn,
		},
	})
	if err != nil {
		return err
	}
	defer r.load.Close()
	working, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	clients.Go(func() { r.load.Run(working) }) // ends with working
	if err := r.hold(ctx); err != nil {
		return err
	}
	for n, ends := 1, false; !ends; n++ {
		if err := r.round(ctx); err != nil {
			return err
		}
		if r.cfg.AfterRound != nil {
			if err := r.cfg.AfterRound(ctx, r.cluster.client); err != nil {
				return err
			}
		}
		ends = r.done() || r.eraEnds()
		if n%rounds == 0 || ends {
			if err := r.hold(ctx); err != nil {
				return err
			}
		}
		r.say()
	}
	return nil
}

// snapshot takes one of what a check has just seen. An older one is kept.
func (r *run) snapshot(ctx context.Context) error {
	r.report.Snapshots++
	file := filepath.Join(r.cfg.Dir, fmt.Sprintf("snapshot-%d.db", r.report.Snapshots))
	var failed error
	next := r.report.Snapshots // no choice: tries are not repeatable
	if err := r.cfg.until(ctx, "a member has sent a snapshot", func(ctx context.Context) bool {
		next++
		failed = r.cluster.save(ctx, r.cluster.members[next%members], file)
		return failed == nil
	}); err != nil {
		return errors.Join(err, failed)
	}
	r.era.taken = append(r.era.taken, file)
	if len(r.era.taken) > 2 {
		if err := os.Remove(r.era.taken[0]); err != nil {
			return err
		}
		r.era.taken = r.era.taken[1:]
	}
	return nil
}

// save writes a snapshot of a member to a file.
func (c *cluster) save(ctx context.Context, of *member, file string) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{of.Client}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	if _, err := client.Get(ctx, "none"); err != nil { // then it has all that was committed before
		return err
	}
	from, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	to, err := os.Create(file)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	return errors.Join(err, from.Close())
}

// snapshotLimit is how long a member may take to send a snapshot.
const snapshotLimit = 20 * time.Second

// restore loses all of etcd, and restores it from an older snapshot, as docs/replicas.md describes it or without the
// bump of the revision. Replicas must refuse what they find then, until they have lost their logs too; clients from
// before must get 410.
func (r *run) restore(ctx context.Context) error {
	before := r.record.Highest()
	more := uint64(0)
	if r.era.number++; r.era.number%2 == 1 {
		more = bump
	}
	for _, of := range r.cluster.replicas {
		r.killReplica(of)
	}
	for _, m := range r.cluster.members {
		if err := r.cluster.replace(m, r.era.taken[0], r.era.number, more); err != nil {
			return err
		}
	}
	for _, m := range r.cluster.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	if err := r.cluster.serves(ctx, r.cfg); err != nil {
		return err
	}
	for _, of := range r.cluster.replicas {
		if err := r.refuses(ctx, of); err != nil {
			return err
		}
	}
	r.record.Forget()
	r.missed, r.safe, r.era.taken, r.healed = 0, 0, nil, time.Now()
	if err := r.heal(ctx); err != nil {
		return err
	}
	r.report.Restores++
	fmt.Fprintf(r.cfg.Out, "%4d %6.1f s  etcd is restored from a snapshot that is older, with its revision raised by %d\n",
		r.report.Faults, time.Since(r.begin).Seconds(), more)
	return r.gone(ctx, before, more > 0)
}

// replace kills a member, and replaces its data by those of a snapshot.
func (c *cluster) replace(m *member, file string, number int, more uint64) error {
	if err := m.kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(m.Dir); err != nil {
		return fmt.Errorf("remove the data of the member %s: %w", m.Name, err)
	}
	m.Dir = filepath.Join(filepath.Dir(m.Dir), m.Name+"-"+strconv.Itoa(number))
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: m.Name, OutputDataDir: m.Dir, PeerURLs: []string{m.Peer}, InitialCluster: m.Cluster,
		InitialClusterToken: "etcd-cluster", RevisionBump: more, MarkCompacted: more > 0,
	})
	if err != nil {
		return fmt.Errorf("restore the member %s: %w", m.Name, err)
	}
	return nil
}

// refuses starts a replica over its log, which etcd does not continue, and moves the log away when it has said so.
func (r *run) refuses(ctx context.Context, of *replica) error {
	if err := of.server.Exec(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.cfg.patience())
	defer cancel()
	select {
	case <-of.server.Ended():
	case <-limited.Done():
		r.killReplica(of)
		r.record.Violation("%s goes on over an etcd that was restored from an older snapshot", of.name)
	}
	if said := of.server.Log(16 << 10); !bytes.Contains(said, []byte("etcd does not continue the history")) {
		r.record.Violation("%s does not say that etcd has another history: %s", of.name, said)
	}
	log := filepath.Join(of.dir, "data", "replica")
	if err := os.Rename(log, log+"-"+strconv.Itoa(r.era.number)); err != nil {
		return fmt.Errorf("move the log of %s away: %w", of.name, err)
	}
	return nil
}

// gone asks every replica as a client from before a restore does. Where the revision was not raised, etcd reaches the
// client's resourceVersion again, and then nobody can know; until then, it is of another history.
func (r *run) gone(ctx context.Context, before int64, raised bool) error {
	for _, of := range r.cluster.replicas {
		c, err := of.server.Client(program.HTTP2)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, query := range []string{watchBriefly, "resourceVersionMatch=Exact"} {
			var answer program.Answer
			if err := r.cfg.until(ctx, of.name+" answers", func(ctx context.Context) bool {
				answer = c.Do(ctx, http.MethodGet, fmt.Sprintf("/api/v1/configmaps?%s&resourceVersion=%d", query, before), nil)
				return answer.Code != 0 && answer.Code != http.StatusServiceUnavailable
			}); err != nil {
				return err
			}
			now, err := r.revision(ctx)
			if err != nil {
				return err
			}
			tooEarly := answer.Code == http.StatusGatewayTimeout && query != watchBriefly && !raised
			if isGone(answer) || tooEarly || !raised && now >= before {
				continue
			}
			r.record.Violation("a client that had seen %d before a restore asks %s, at %d, with %s: %s, want 410", before,
				of.name, now, query, answer)
		}
	}
	return nil
}

const watchBriefly = "watch=1&timeoutSeconds=1"

// isGone reports whether a list is answered with 410, or a watch whose first event says so.
func isGone(answer program.Answer) bool {
	if answer.Code == http.StatusGone {
		return true
	}
	var first struct {
		Type   string
		Object program.Status
	}
	err := json.NewDecoder(bytes.NewReader(answer.Body)).Decode(&first)
	return err == nil && first.Type == "ERROR" && first.Object.Code == http.StatusGone
}
