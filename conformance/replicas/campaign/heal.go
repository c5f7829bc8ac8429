package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// heal ends all faults, and waits until every replica is ready: then it has all that was committed before.
func (r *run) heal(ctx context.Context) error {
	r.cluster.restoreStorage()
	if err := r.startMembers(); err != nil {
		return err
	}
	if time.Since(r.healed) > r.cluster.interval/2 { // they may miss history: nobody sees that before it is known what
		for of := range r.hurt {
			r.away(of)
		}
	}
	if err := r.startReplicas(ctx); err != nil {
		return err
	}
	if err := r.cfg.until(ctx, "etcd has no alarm", func(ctx context.Context) bool {
		return r.alarm(ctx, etcdserverpb.AlarmRequest_DEACTIVATE) == nil
	}); err != nil {
		return err
	}
	now, err := r.revision(ctx)
	if err != nil {
		return err
	}
	for _, of := range r.cluster.replicas {
		if err := r.ready(ctx, of); err != nil {
			return err
		}
	}
	clear(r.hurt)
	r.safe, r.healed = now, time.Now()
	return nil
}

// startMembers starts those that were killed, or have ended by themselves, and lets the others go on.
func (r *run) startMembers() error {
	for _, m := range r.cluster.members {
		if m.process != nil {
			err := m.process.Resume()
			if err == nil {
				continue
			}
			fmt.Fprintf(r.cfg.Out, "the member %s has ended, and is started again: %v: %s\n", m.Name, err, m.log.Name())
			_ = m.kill() // it has ended
		}
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}

// startReplicas starts those that were killed, all at once, and lets the others go on.
func (r *run) startReplicas(ctx context.Context) error {
	var starts errgroup.Group
	for _, of := range r.cluster.replicas {
		if !r.down[of] {
			if err := of.server.Resume(); err != nil {
				r.record.Violation("%s has ended: %v: %s", of.name, err, of.server.Log(2<<10))
				return errors.Join(fmt.Errorf("resume the replica %s: %w", of.name, err), starts.Wait())
			}
			continue
		}
		delete(r.down, of)
		starts.Go(func() error {
			if err := of.server.Start(ctx); err != nil {
				r.record.Violation("start %s: %v: %s", of.name, err, of.server.Log(2<<10))
				return err
			}
			of.clients.leadTo(of.server.Host()) // another program may have taken the port
			return nil
		})
	}
	return starts.Wait()
}

// ready waits until a replica is ready, and lets clients come to it.
func (r *run) ready(ctx context.Context, of *replica) error {
	c, err := of.server.Client(program.HTTP1)
	if err != nil {
		return err
	}
	defer c.Close()
	var answer program.Answer
	err = r.cfg.until(ctx, of.name+" is ready", func(ctx context.Context) bool {
		answer = c.Do(ctx, http.MethodGet, "/readyz?verbose", nil)
		return answer.Code == http.StatusOK
	})
	if err != nil {
		r.record.Violation("%s is not ready %v after the last fault has ended: %s; %s", of.name, r.cfg.patience(), answer,
			of.server.Log(4<<10))
		return err
	}
	if err := r.holes(ctx, of); err != nil {
		return err
	}
	r.back(of)
	return nil
}

// stateRead is how a replica says that it has missed changes, and read the state.
var stateRead = regexp.MustCompile(`the state of etcd was read.*?after=(\d+) revision=(\d+)`)

// holes notes what a replica says to have missed since it was asked last.
func (r *run) holes(ctx context.Context, of *replica) error {
	log, err := os.Open(filepath.Join(of.dir, "server.log"))
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", of.name, err)
	}
	defer func() { _ = log.Close() }() // it is only read
	fresh, err := io.ReadAll(io.NewSectionReader(log, of.read, math.MaxInt64-of.read))
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", of.name, err)
	}
	fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
	of.read += int64(len(fresh))
	for _, found := range stateRead.FindAllSubmatch(fresh, -1) {
		from, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
		to, _ := strconv.ParseInt(string(found[2]), 10, 64)
		r.record.Hole(record.Hole{Server: of.url(), From: from, To: to})
		if from == 0 { // its first state: nobody has what was before
			continue
		}
		r.report.Holes++
		compacted, err := r.compacted(ctx)
		if err != nil {
			return err
		}
		c := compactions{planned: r.missed, own: compacted, interval: r.cluster.interval}
		if away := time.Since(r.healed); !c.excuse(from, away) {
			r.record.Violation("%s has missed the changes from %d to %d, %v after all were ready; etcd was compacted up to "+
				"%d by the campaign, and up to %d by the replicas, which keep %v", of.name, from, to, away, c.planned, c.own,
				c.interval)
		}
	}
	return nil
}

// compactions say what of etcd's history is not there.
type compactions struct {
	planned int64 // what was compacted while a replica was away that was not to see it
	own     int64 // what the replicas have compacted, by their rule
	// interval is how long they keep what one needs that is not registered any more.
	interval time.Duration
}

// excuse reports whether a replica that was away for a time may have missed what came after a revision.
func (c compactions) excuse(from int64, away time.Duration) bool {
	return from < c.planned || away > c.interval && from < c.own
}

// compacted returns to where the replicas have compacted etcd.
func (r *run) compacted(ctx context.Context) (rev int64, err error) {
	err = r.cfg.until(ctx, "etcd says to where it is compacted", func(ctx context.Context) bool {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		resp, err := r.cluster.client.Get(limited, "compact_rev_key")
		if err == nil && len(resp.Kvs) > 0 {
			rev, err = strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
		}
		return err == nil
	})
	return rev, err
}

// alarm raises or ends the alarm that etcd has no space.
func (r *run) alarm(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn := r.cluster.client.ActiveConnection()
	client := etcdserverpb.NewMaintenanceClient(conn)
	list, err := client.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET})
	if err != nil {
		return err
	}
	if action == etcdserverpb.AlarmRequest_ACTIVATE {
		_, err := client.Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: action, MemberID: list.Header.MemberId, Alarm: etcdserverpb.AlarmType_NOSPACE,
		})
		return err
	}
	for _, alarm := range list.Alarms {
		if _, err := client.Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: action, MemberID: alarm.MemberID, Alarm: alarm.Alarm,
		}); err != nil {
			return err
		}
	}
	return nil
}

// compare compares what all replicas show with the keys in etcd, and says how they differ.
func (r *run) compare(ctx context.Context, states []record.List) (differs string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.patience())
	defer cancel()
	for _, state := range states {
		prefix := "/registry/" + state.Scope.Resource + "/"
		if state.Scope.Resource == "widgets" {
			prefix = "/registry/crash.gapless.io/widgets/"
		}
		now, err := r.cluster.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return "", fmt.Errorf("read %s: %w", prefix, err)
		}
		stored, shown := map[string]int64{}, map[string]int64{}
		for _, kv := range now.Kvs {
			stored[string(kv.Key)] = kv.ModRevision
		}
		for _, item := range state.Items {
			shown[prefix+item.Key.Namespace+"/"+item.Key.Name] = item.RV
		}
		if !maps.Equal(stored, shown) {
			return fmt.Sprintf("etcd has %d objects below %s, the replicas show %d, or in other versions", len(stored), prefix,
				len(shown)), nil
		}
	}
	return "", nil
}
