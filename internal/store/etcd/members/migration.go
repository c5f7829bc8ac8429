package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Migration is a note in etcd that objects are being moved into it: what is below the prefix of the objects is
// only a part of them. It is the error of those who want to use that.
type Migration struct {
	// ID is that of what is moved, From where it is.
	ID      string    `json:"id"`
	From    string    `json:"from"`
	Started time.Time `json:"started"`
	// Before is the revision of etcd when the migration began.
	Before int64 `json:"before"`

	prefix string // of the function Prefix
	rev    int64  // the revision of the note
}

// Error says what to do.
func (m *Migration) Error() string {
	return fmt.Sprintf("etcd has only a part of the objects of %s: their migration, begun %s, did not finish (%s); "+
		"run gapless migrate again, or delete the objects and that key",
		m.From, m.Started.Format(time.RFC3339), m.key())
}

func (m *Migration) key() string { return migrationKey(m.prefix) }

func migrationKey(prefix string) string { return prefix + "migration" }

// UnfinishedMigration returns the migration that is noted beside a prefix of the function Prefix; nil: none is.
func UnfinishedMigration(ctx context.Context, client *clientv3.Client, prefix string) (*Migration, error) {
	key := migrationKey(prefix)
	resp, err := client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return decodeMigration(prefix, resp.Kvs[0])
}

func decodeMigration(prefix string, note *mvccpb.KeyValue) (*Migration, error) {
	m := &Migration{prefix: prefix, rev: note.ModRevision}
	if err := json.Unmarshal(note.Value, m); err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", note.Key, err)
	}
	return m, nil
}

// ErrOvertaken says that somebody else has noted, or removed, a migration.
var ErrOvertaken = errors.New("another migration has begun, or the note of this one was removed")

// ErrReplicas says that replicas use the objects.
var ErrReplicas = errors.New("replicas are registered")

// Begin notes a migration: it must be the first, and no replica may be registered. Replicas refuse the objects from
// now on, and none registers. Errors: ErrReplicas, ErrOvertaken.
func (m *Migration) Begin(ctx context.Context, client *clientv3.Client, prefix string) error {
	m.prefix = prefix
	note, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the note of the migration: %w", err)
	}
	replicas := New(Options{Prefix: prefix}).replicasPrefix()
	resp, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(m.key()), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(replicas), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(m.key(), string(note))).
		Else(clientv3.OpGet(replicas, clientv3.WithPrefix(), clientv3.WithCountOnly())).
		Commit()
	if err == nil && !resp.Succeeded {
		err = ErrOvertaken
		if resp.Responses[0].GetResponseRange().Count > 0 {
			err = ErrReplicas
		}
	}
	if err != nil {
		return fmt.Errorf("note the migration in etcd as %s: %w", m.key(), err)
	}
	m.rev = resp.Header.Revision
	return nil
}

// Holds is true, in a transaction, as long as the note is there.
func (m *Migration) Holds() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(m.key()), "=", m.rev)
}

// Never is false in every transaction, which is as large with it as with Holds, or a few bytes larger: etcd says to
// such a one whether it takes its size.
func Never(prefix string) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(migrationKey(prefix)), "=", math.MaxInt64)
}

// Holding returns an error if the note is not there any more.
func (m *Migration) Holding(ctx context.Context, client *clientv3.Client) error {
	now, err := UnfinishedMigration(ctx, client, m.prefix)
	if err == nil && (now == nil || now.rev != m.rev) {
		return ErrOvertaken
	}
	return err
}

// askAfter is how long End waits for etcd to say whether the note is gone.
const askAfter = 10 * time.Second

// End removes the note: all objects are there. Where etcd does not answer it looks whether the note is gone, also after
// the end of ctx: without it the migration cannot be run again.
func (m *Migration) End(ctx context.Context, client *clientv3.Client) error {
	resp, err := client.Txn(ctx).If(m.Holds()).Then(clientv3.OpDelete(m.key())).Commit()
	switch {
	case err == nil && resp.Succeeded:
		return nil
	case err == nil:
		err = ErrOvertaken
	default:
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), askAfter)
		defer cancel()
		if now, reading := UnfinishedMigration(limited, client, m.prefix); reading == nil && now == nil {
			return nil
		}
	}
	return fmt.Errorf("remove the note of the migration, %s, from etcd: %w", m.key(), err)
}
