package accounts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Account is what the plugin reads of a ServiceAccount.
type Account struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Secrets          []reference `json:"secrets"`
	ImagePullSecrets []reference `json:"imagePullSecrets"`
	Automount        *bool       `json:"automountServiceAccountToken"`
}

// reference names a Secret.
type reference struct {
	Name string `json:"name"`
}

// Cluster reads the present state.
type Cluster interface {
	// FindFresh returns an object that memory has, or, if it has none, one of a state that has every write which was
	// acknowledged before the call; nil when there is none. It blocks until there is that state. Errors: the object
	// cannot be read; the store's; ctx's cause.
	FindFresh(ctx context.Context, gr kinds.GroupResource, key wire.Key) (*wire.Object, error)
}

// Table is the ServiceAccounts. It is a registry.Follower, and safe for concurrent use.
type Table struct {
	*plugins.Table[Account]

	cluster Cluster
	lacking atomic.Int64 // how many namespaces have no account default

	// mu guards what follows.
	mu      sync.Mutex
	has     map[string]has        // what there is, by namespaces
	awaited map[wire.Key]*awaited // accounts that do not exist and somebody waits for
}

// has says what there is of a namespace.
type has struct{ itself, account bool }

func (h has) lacks() bool { return h.itself && !h.account }

// awaited is an account that is waited for: comes is closed when it comes.
type awaited struct {
	comes   chan struct{}
	waiters int
}

// Accounts returns an empty table.
func Accounts(c Cluster) *Table {
	return &Table{
		Table: plugins.NewTable[Account](accounts, nil), cluster: c, has: map[string]has{}, awaited: map[wire.Key]*awaited{},
	}
}

// Follows implements registry.Follower.
func (t *Table) Follows() []kinds.GroupResource { return []kinds.GroupResource{accounts, namespaces} }

// Replace implements registry.Follower.
func (t *Table) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	if gr == accounts {
		t.Table.Replace(gr, objects)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for namespace := range t.has {
		t.noteLocked(gr, namespace, false)
	}
	for _, o := range objects {
		t.changeLocked(gr, o.Key(), false)
	}
}

// Change implements registry.Follower.
func (t *Table) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	if gr == accounts {
		t.Table.Change(gr, o, deleted)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changeLocked(gr, o.Key(), deleted)
}

func (t *Table) changeLocked(gr kinds.GroupResource, key wire.Key, deleted bool) {
	switch {
	case gr == namespaces:
		t.noteLocked(gr, key.Name, !deleted)
		return
	case key.Name == defaultName:
		t.noteLocked(gr, key.Namespace, !deleted)
	}
	if a := t.awaited[key]; a != nil && !deleted {
		delete(t.awaited, key)
		close(a.comes)
	}
}

// noteLocked notes whether there is a namespace, or its account default.
func (t *Table) noteLocked(gr kinds.GroupResource, namespace string, is bool) {
	was := t.has[namespace]
	now := was
	if gr == namespaces {
		now.itself = is
	} else {
		now.account = is
	}
	switch {
	case now.lacks() && !was.lacks():
		t.lacking.Add(1)
	case was.lacks() && !now.lacks():
		t.lacking.Add(-1)
	}
	if t.has[namespace] = now; now == (has{}) {
		delete(t.has, namespace)
	}
}

// Lacks reports whether a namespace has no account default, so that Find may wait.
func (t *Table) Lacks() bool { return t.lacking.Load() > 0 }

// patience is how long Find waits for the account default: upstream looks ten times for it, at random intervals of at
// most 200 ms (plugin/pkg/admission/serviceaccount getServiceAccount).
const patience = 9 * 200 * time.Millisecond

// Find returns an account, which the caller does not change; nil if there is none. It waits up to 1.8 s for an account
// of the name default, which a controller makes in each new namespace. Errors: it cannot be read; the store's; ctx's
// cause.
func (t *Table) Find(ctx context.Context, key wire.Key) (*Account, error) {
	if a, err := t.Get(key); a != nil || err != nil {
		return a, err
	}
	// It may be one that another server has made a moment ago.
	if _, err := t.cluster.FindFresh(ctx, accounts, key); err != nil {
		return nil, err
	}
	if key.Name != defaultName {
		return t.Get(key)
	}
	comes, leave := t.await(key) // before the look
	defer leave()
	if a, err := t.Get(key); a != nil || err != nil {
		return a, err
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-comes:
	case <-over.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return t.Get(key)
}

// await returns what is closed when an account comes. The caller calls leave when it waits no more.
func (t *Table) await(key wire.Key) (comes <-chan struct{}, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.awaited[key]
	if a == nil {
		a = &awaited{comes: make(chan struct{})}
		t.awaited[key] = a
	}
	a.waiters++
	return a.comes, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if a.waiters--; a.waiters == 0 && t.awaited[key] == a {
			delete(t.awaited, key)
		}
	}
}
