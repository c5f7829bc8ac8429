package campaign

import (
	"bytes"
	"context"
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

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// heal ends all faults, and waits until every replica is ready: then it has all that was committed before.
func (r *run) heal(ctx context.Context) error {
	r.cluster.restoreStorage()
	for _, m := range r.cluster.members {
		if m.process == nil {
			if err := m.start(); err != nil {
				return err
			}
			continue
		}
		if err := m.process.Resume(); err != nil {
			return fmt.Errorf("resume the member %s: %w", m.Name, err)
		}
	}
	for _, of := range r.cluster.replicas {
		if r.down[of] {
			if err := of.server.Start(ctx); err != nil {
				r.record.Violation("start %s: %v: %s", of.name, err, of.server.Log(2<<10))
				return err
			}
			delete(r.down, of)
		} else if err := of.server.Resume(); err != nil {
			return fmt.Errorf("resume the replica %s: %w: %s", of.name, err, of.server.Log(2<<10))
		}
	}
	if err := until(ctx, "etcd has no alarm", func() bool {
		return r.alarm(ctx, etcdserverpb.AlarmRequest_DEACTIVATE) == nil
	}); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	now, err := r.cluster.client.Get(limited, "none")
	if err != nil {
		return fmt.Errorf("read etcd's revision: %w", err)
	}
	for _, of := range r.cluster.replicas {
		if err := r.ready(ctx, of); err != nil {
			return err
		}
	}
	r.safe = now.Header.Revision
	return nil
}

// ready waits until a replica is ready, and lets clients come to it.
func (r *run) ready(ctx context.Context, of *replica) error {
	c, err := of.server.Client(program.HTTP1)
	if err != nil {
		return err
	}
	defer c.Close()
	var answer program.Answer
	err = until(ctx, of.name+" is ready", func() bool {
		answer = c.Do(ctx, http.MethodGet, "/readyz?verbose", nil)
		return answer.Code == http.StatusOK
	})
	if err != nil {
		r.record.Violation("%s is not ready %v after the last fault has ended: %s; %s", of.name, healLimit, answer,
			of.server.Log(4<<10))
		return err
	}
	if err := r.holes(of); err != nil {
		return err
	}
	r.back(of)
	return nil
}

// stateRead is how a replica says that it has missed changes, and read the state.
var stateRead = regexp.MustCompile(`the state of etcd was read.*?after=(\d+) revision=(\d+)`)

// holes notes what a replica says to have missed since it was asked last.
func (r *run) holes(of *replica) error {
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
		if from >= r.missed || r.missed == 0 {
			r.record.Violation("%s has missed the changes from %d to %d, although etcd was compacted up to %d only, or to "+
				"what all replicas had", of.name, from, to, r.missed)
		}
	}
	return nil
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
	ctx, cancel := context.WithTimeout(ctx, healLimit)
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
