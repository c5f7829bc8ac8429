// Package migrate moves all objects of a stopped server's data directory into an etcd cluster, where kube-apiserver
// and replicas keep them, and back.
//
// [IntoEtcd] and [IntoDirectory] read the source three times: to check that the target can have every object,
// before anything is written; to write; and to compare what both sides have then, each of which gets a [Digest].
// [Options] name the sides. A [Plan] says what will be written, a [Result] what was.
//
// stream.go has the order in which both sides are read, directory.go and cluster.go how; check.go what cannot be
// moved; write.go the transactions.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// Options name what is moved.
type Options struct {
	Dir     string // the data directory
	Cluster etcd.Cluster
	Prefix  string // of the objects in etcd, "/registry"
	// Encryption is that of both sides.
	Encryption encrypted.Config
	// EventTTL is how long an Event lives after its last write; 0: until it is deleted.
	EventTTL time.Duration
	// Without are the beginnings of keys in etcd, after the prefix, that IntoDirectory leaves out, those of objects
	// too.
	Without []string
	// Bump is backup.RestoreOptions.Bump, for IntoDirectory.
	Bump int64
	// Checked is called when everything was checked, before the first write; nil is allowed. Its error ends
	// the migration.
	Checked func(Plan) error
	// Progress is called now and then with how many objects the present step has done; nil is allowed.
	Progress func(step Step, objects, of int64)
}

// Step is a part of a migration.
type Step string

// The steps, in their order.
const (
	Checking  Step = "checked"
	Writing   Step = "written"
	Comparing Step = "compared"
)

// Plan says what will be written.
type Plan struct {
	Objects int64
	// Directory is the last resourceVersion that was given out from the directory, of IntoEtcd. Etcd is the
	// revision of etcd.
	Directory, Etcd int64
	// LeftOut are the first of the LeftOutCount keys in etcd that are not moved: what kube-apiserver makes for
	// itself, and Options.Without.
	LeftOut      []string
	LeftOutCount int64
	// Begun says that some of the objects are in etcd already, from an earlier attempt.
	Begun int64
}

// Result says what was moved.
type Result struct {
	Objects int64 // that both sides have
	Written int64 // by this attempt
	Expired int64 // Events that were too old to be moved
	Source  Digest
	Target  Digest
	// Revision is the one after which the target's resourceVersions continue.
	Revision int64
	Wrote    time.Duration // how long it took to write them
}

// UnmovableError says that the target cannot have some of the objects, or that they cannot be read. This attempt
// has written nothing.
type UnmovableError struct {
	Problems []string // the first ones
	Count    int64    // of all
	Begun    int64    // how many objects the target has from an earlier attempt
}

// Error names the first of them.
func (e *UnmovableError) Error() string {
	written := "nothing was written"
	if e.Begun > 0 {
		written = fmt.Sprintf("nothing was written now; %d others are in etcd from an earlier attempt", e.Begun)
	}
	text := fmt.Sprintf("%d objects cannot be moved, and %s:\n  %s", e.Count, written, strings.Join(e.Problems, "\n  "))
	if more := e.Count - int64(len(e.Problems)); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

// ErrNotEmpty says that there are objects in etcd, which are not of the same migration.
var ErrNotEmpty = errors.New("there are objects in etcd already: move into an empty cluster, or below another prefix")

// InUseError says that replicas use the objects in etcd.
type InUseError struct{ URLs []string }

// Error says where they are.
func (e *InUseError) Error() string {
	return fmt.Sprintf("servers use these objects in etcd: stop %s first", strings.Join(e.URLs, ", "))
}

// mover is one migration.
type mover struct {
	Options

	live   *kinds.Live
	plain  *layout.Layout
	layout *encrypted.Layout
	client *clientv3.Client
	own    string // the prefix of gapless's own keys in etcd
}

// open connects to etcd, and loads the keys. The caller calls close.
func open(ctx context.Context, o Options) (*mover, error) {
	if o.Progress == nil {
		o.Progress = func(Step, int64, int64) {}
	}
	if o.Checked == nil {
		o.Checked = func(Plan) error { return nil }
	}
	m := &mover{Options: o, live: kinds.NewLive(builtin.Catalog())}
	m.plain = layout.New(o.Prefix, m.live)
	var err error
	if m.own, err = members.Prefix(o.Prefix); err != nil {
		return nil, err
	}
	if m.layout, err = encrypted.OpenLayout(ctx, m.plain, o.Encryption); err != nil {
		return nil, err
	}
	if m.client, err = etcd.Dial(ctx, o.Cluster); err != nil {
		m.layout.Close()
		return nil, fmt.Errorf("make a client of etcd: %w", err)
	}
	return m, nil
}

func (m *mover) close(err error) error {
	m.layout.Close()
	if closing := m.client.Close(); closing != nil && !errors.Is(closing, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("close the client of etcd: %w", closing))
	}
	return err
}

// contactFor bounds the first read of etcd.
const contactFor = 20 * time.Second

var errNoContact = errors.New("etcd does not answer")

// free returns the migration into etcd that did not finish, nil if there is none. It is an error if replicas are
// registered.
func (m *mover) free(ctx context.Context) (*members.Migration, error) {
	limited, cancel := context.WithTimeoutCause(ctx, contactFor, errNoContact)
	defer cancel()
	view, err := members.New(members.Options{Client: m.client, Prefix: m.own}).List(limited)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errNoContact, err)
		}
		return nil, err
	}
	if len(view.Replicas) > 0 {
		inUse := &InUseError{}
		for _, r := range view.Replicas {
			inUse.URLs = append(inUse.URLs, r.URL)
		}
		return nil, inUse
	}
	return members.UnfinishedMigration(limited, m.client, m.own)
}

// expires returns when an object is deleted by itself.
func (m *mover) expires(o *object) (at time.Time, does bool) {
	if m.EventTTL <= 0 || store.ResourceOf(o.key) != "events" {
		return time.Time{}, false
	}
	return o.written.Add(m.EventTTL), true
}

// shortest is the time to live below which an Event is not moved: etcd's shortest lease is about as long.
const shortest = 2 * time.Second

// expired reports whether the target need not have an object, because it is deleted by itself now.
func (m *mover) expired(o *object) bool {
	at, does := m.expires(o)
	return does && time.Until(at) < shortest
}

// IntoEtcd moves the objects of a directory into etcd, where there must be none, or some of them, by an attempt
// that did not finish. Until all are there, replicas refuse them. The directory is opened as a server opens it, which
// completes what a crash has left; no object of it is changed. Errors:
// *UnmovableError, ErrNotEmpty, *InUseError, *DifferenceError, *members.Migration of another directory,
// *store.LockedError if a server runs on the directory.
func IntoEtcd(ctx context.Context, o Options) (done Result, err error) {
	m, err := open(ctx, o)
	if err != nil {
		return done, err
	}
	defer func() { err = m.close(err) }()
	from, err := m.openDirectory(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	begun, err := m.free(ctx)
	if err != nil {
		return done, err
	}
	if begun != nil && begun.ID != from.log.ID() {
		return done, begun
	}
	to := m.cluster()
	if err := m.checkInto(ctx, from, to, begun); err != nil {
		return done, err
	}
	last := from.log.Stats().Revision
	plan := Plan{Objects: from.count, Directory: last, Etcd: to.rev, Begun: to.count}
	if err := m.Checked(plan); err != nil {
		return done, err
	}
	if begun, err = m.begin(ctx, from, to, begun); err != nil {
		return done, err
	}
	err = m.writeInto(ctx, from, to, &done, begun)
	if err == nil {
		err = m.expire(ctx, begun, max(begun.Before, last), done.Revision)
	}
	return done, goesOn(err)
}

// begin notes the migration, unless it goes on with one. From now on no replica registers. Some may have come while
// everything was checked.
func (m *mover) begin(ctx context.Context, from *directory, to *cluster, begun *members.Migration) (*members.Migration, error) {
	if begun != nil {
		return begun, nil
	}
	path, err := filepath.Abs(m.Dir)
	if err != nil {
		return nil, err
	}
	begun = &members.Migration{ID: from.log.ID(), From: path, Started: time.Now().UTC(), Before: to.rev}
	err = begun.Begin(ctx, m.client, m.own)
	if errors.Is(err, members.ErrReplicas) {
		if _, used := m.free(ctx); used != nil { // it names them
			err = used
		}
	}
	if err != nil {
		return nil, err
	}
	return begun, nil
}

// goesOn adds to an error that can pass that the same command goes on then.
func goesOn(err error) error {
	_, differ := errors.AsType[*DifferenceError](err)
	if err == nil || differ || errors.Is(err, ErrNotEmpty) || errors.Is(err, errForeign) || errors.Is(err, members.ErrOvertaken) {
		return err
	}
	return fmt.Errorf("%w; gapless migrate goes on where this has stopped", err)
}

// checkInto checks that all objects can be moved, and that etcd has nothing else.
func (m *mover) checkInto(ctx context.Context, from *directory, to *cluster, begun *members.Migration) error {
	err := to.scan(ctx, func(key string) error { return fmt.Errorf("%s: %w", key, ErrNotEmpty) })
	if err != nil {
		return err
	}
	if begun == nil && to.count > 0 {
		return fmt.Errorf("%s: %w", to.first, ErrNotEmpty)
	}
	bad, err := m.define(ctx, from.pages(ctx, definitions))
	if err != nil {
		return err
	}
	from.check = m.storable
	count := counter{report: m.Progress, step: Checking, of: from.count}
	err = join(from.pages(ctx, ""), to.pages(ctx, ""), func(s, t *object) error {
		switch {
		case s == nil:
			return fmt.Errorf("%s is not of the directory: %w", t.key, ErrNotEmpty)
		case s.err != nil:
			bad.add(s)
		case t != nil && (t.err != nil || !t.equal(s)):
			return fmt.Errorf("%s is not as the directory has it: %w", t.key, ErrNotEmpty)
		}
		count.add()
		return nil
	})
	from.check = nil
	if err != nil {
		return err
	}
	return bad.unmovable(to.count)
}

// writeInto writes what is not there yet, and compares.
func (m *mover) writeInto(ctx context.Context, from *directory, to *cluster, done *Result, mark *members.Migration) error {
	began := time.Now()
	w := m.newWriter(ctx, mark)
	count := counter{report: m.Progress, step: Writing, of: from.count}
	err := join(from.pages(ctx, ""), to.pages(ctx, ""), func(s, t *object) error { //nolint:contextcheck // w has it
		count.add()
		switch {
		case s == nil:
			return fmt.Errorf("%s: %w", t.key, ErrNotEmpty)
		case s.err != nil:
			return s.err
		case t != nil:
			return nil // of an earlier attempt; it was compared
		}
		return w.put(*s)
	})
	if err := errors.Join(err, w.finish()); err != nil { //nolint:contextcheck // w has it
		return err
	}
	done.Wrote, done.Written = time.Since(began), w.written.Load()
	err = to.scan(ctx, func(key string) error { return fmt.Errorf("%s was written meanwhile: %w", key, ErrNotEmpty) })
	if err != nil {
		return err
	}
	done.Revision = to.rev
	if err := m.compare(from.pages(ctx, ""), to.pages(ctx, ""), done, from.count); err != nil {
		return err
	}
	return mark.Holding(ctx, m.client)
}

// expire compacts etcd up to where clients of the directory may be, so that every server answers them with 410, and
// shows no state of the time in between. That is so for resourceVersions that etcd has reached. For one that it has
// not, a replica answers 410; at kube-apiserver a list is 504 (Too large resource version), and a watch is silent, until
// etcd comes there: then it is an ordinary one. Then it removes the mark: replicas may come.
func (m *mover) expire(ctx context.Context, mark *members.Migration, clients, now int64) error {
	if _, err := m.client.Compact(ctx, min(clients+1, now)); err != nil && !isCompacted(err) {
		return fmt.Errorf("compact etcd up to where clients of the directory may be: %w", err)
	}
	return mark.End(ctx, m.client)
}
