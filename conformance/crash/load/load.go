// Package load writes to and reads from a server that may be killed at any moment, and
// records all attempts and answers.
//
// A [Load] is writers, watchers and readers, which outlive the server's processes. A
// [Register] is the clients of the linearizability check, and the history of their operations.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// Config says how much is done.
type Config struct {
	Server  *program.Server
	Record  *record.Record
	Seed    uint64
	Writers int
	Readers int
	// Pause is the mean time between two writes of a writer.
	Pause time.Duration
	// Calm is the least mean time between two reads of a reader, and between two operations of a client of the
	// Register; 0: tens of milliseconds.
	Calm time.Duration
	// Compact is the mean time between two compactions; 0 is never.
	Compact time.Duration
	// Watchers is how many there are; 0: sixteen.
	Watchers int
	// Several says that Server is one of several ones over one storage; nil: it is alone.
	Several *Several
}

// Several are servers over one storage, behind a balancer. One of them may not have reached yet what another
// one has answered.
type Several struct {
	// Pick returns the URL of a server for the next request, or the next watch.
	Pick func() string
	// All are the URLs of all of them.
	All []string
	// Acknowledged, if not nil, is called after each write that was.
	Acknowledged func()
	// WentOn, if not nil, is called with each first event or bookmark of a watch that ended before without
	// one that says why.
	WentOn func(Interruption)
}

// Interruption is the time between two streams of one watcher.
type Interruption struct {
	From, To string    // URLs of servers
	Ended    time.Time // when the first stream ended
	Took     time.Duration
}

// Load is the clients of one server.
type Load struct {
	Register *Register

	cfg     Config
	record  *record.Record
	clients []*program.Client // one of each protocol
	each    []*program.Client // one of each server
	keys    []record.Key
	scopes  []record.Scope // of every namespace of every resource
	watches []*record.Watch
	gate    gate
}

// New prepares a load on a server that serves: it creates namespaces and the
// definition of the custom resource.
func New(ctx context.Context, cfg Config) (*Load, error) {
	l := &Load{cfg: cfg, record: cfg.Record}
	for _, p := range []program.Protocol{program.HTTP1, program.HTTP2} {
		at := cfg.Server.URL
		if cfg.Several != nil {
			at = cfg.Several.Pick
		}
		c, err := cfg.Server.ClientAt(p, at)
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	if err := l.eachServer(); err != nil {
		return nil, err
	}
	l.Register = newRegister(l)
	for _, s := range []struct {
		resource, namespace string
		objects             int
	}{
		{configMaps, "a", 60},
		{configMaps, "b", 60},
		{configMaps, "c", 40},
		{configMaps, "d", 40},
		{secrets, "a", 30},
		{secrets, "b", 30},
		{widgets, "a", 20},
		{widgets, "b", 20},
		{configMaps, linearSpace, 0},
	} {
		l.scopes = append(l.scopes, record.Scope{Resource: s.resource, Namespace: s.namespace})
		for n := range s.objects {
			l.keys = append(l.keys, record.Key{Resource: s.resource, Namespace: s.namespace, Name: fmt.Sprintf("o%02d", n)})
		}
	}
	for i, s := range watched(cfg.Watchers) {
		l.watches = append(l.watches, l.record.Watch(fmt.Sprintf("watcher %d of %s", i, s), s))
	}
	return l, l.prepare(ctx)
}

// eachServer makes a client of each server.
func (l *Load) eachServer() error {
	if l.cfg.Several == nil {
		l.each = l.clients[1:]
		return nil
	}
	for _, url := range l.cfg.Several.All {
		c, err := l.cfg.Server.ClientAt(program.HTTP2, func() string { return url })
		if err != nil {
			return err
		}
		l.each = append(l.each, c)
	}
	return nil
}

// watched is what n watchers, sixteen at least, watch: whole resources, which see all of the
// others' changes too, and namespaces.
func watched(n int) []record.Scope {
	var all []record.Scope
	for _, of := range []struct {
		resource   string
		whole      int
		namespaces []string
	}{
		{configMaps, 4, []string{"a", "b", "c", "d"}},
		{secrets, 3, []string{"a"}},
		{widgets, 3, []string{"b"}},
	} {
		for range of.whole {
			all = append(all, record.Scope{Resource: of.resource})
		}
		for _, namespace := range of.namespaces {
			all = append(all, record.Scope{Resource: of.resource, Namespace: namespace})
		}
	}
	for resources := []string{configMaps, secrets, widgets}; len(all) < n; {
		all = append(all, record.Scope{Resource: resources[len(all)%len(resources)]})
	}
	return all
}

func (l *Load) prepare(ctx context.Context) error {
	for _, name := range []string{"a", "b", "c", "d", linearSpace} {
		err := l.create(ctx, "/api/v1/namespaces", encode(map[string]any{"metadata": map[string]string{"name": name}}))
		if err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	err := l.create(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(definition))
	if err != nil {
		return fmt.Errorf("create the definition: %w", err)
	}
	return l.poll(ctx, "the custom resource is served", func() bool {
		return !slices.ContainsFunc(l.each, func(c *program.Client) bool {
			return c.Do(ctx, http.MethodGet, pathOf(record.Scope{Resource: widgets}), nil).Code != http.StatusOK
		})
	})
}

// create creates an object that all need. A storage of several members may not answer for a moment.
func (l *Load) create(ctx context.Context, path string, body []byte) error {
	var a program.Answer
	err := l.poll(ctx, "an object is created", func() bool {
		a = l.clients[0].Do(ctx, http.MethodPost, path, body)
		return a.Code == http.StatusCreated || a.Status().Reason == "AlreadyExists"
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, a)
	}
	return nil
}

// Run works until ctx ends. It begins with the gate closed: see Release.
func (l *Load) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait() // all of them end with ctx
	for i := range l.cfg.Writers {
		wg.Go(func() { l.write(ctx, l.random(1, i), l.client(i)) })
	}
	for i, w := range l.watches {
		wg.Go(func() { l.watch(ctx, w, l.random(2, i), l.client(i)) })
	}
	for i := range l.cfg.Readers {
		wg.Go(func() { l.read(ctx, l.random(3, i), l.client(i)) })
	}
	for i := range registerClients {
		wg.Go(func() { l.Register.run(ctx, i, l.random(4, i), l.client(i)) })
	}
	if l.cfg.Compact > 0 {
		wg.Go(func() { l.compact(ctx, l.random(5, 0), l.client(0)) })
	}
}

// Close closes idle connections, after Run.
func (l *Load) Close() {
	for _, c := range slices.Concat(l.clients, l.each) {
		c.Close()
	}
}

func (l *Load) random(part uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(l.cfg.Seed, part<<32|uint64(i)))
}

func (l *Load) client(i int) *program.Client { return l.clients[i%len(l.clients)] }

// Hold stops all writes, and returns once none is under way.
func (l *Load) Hold(ctx context.Context) error { return l.gate.close(ctx) }

// Release lets writers continue.
func (l *Load) Release() { l.gate.open() }

// Verify checks everything that was recorded against the server, or all of them, which serve,
// while the load is held. It fails when nothing can be checked any more. It returns the state that all servers
// have shown.
func (l *Load) Verify(ctx context.Context) ([]record.List, error) {
	for _, c := range l.each {
		if a := c.Do(ctx, http.MethodGet, "/readyz", nil); a.Code != http.StatusOK && l.cfg.Several == nil {
			l.record.Violation("/readyz after a restart: %s", a)
		}
	}
	last := map[record.Scope]int64{}
	for _, s := range l.scopes {
		rv, err := l.fence(ctx, l.clients[1], record.Key{Resource: s.Resource, Namespace: s.Namespace, Name: "fence"})
		if err != nil {
			return nil, err
		}
		all := record.Scope{Resource: s.Resource}
		last[s], last[all] = rv, max(last[all], rv)
	}
	for _, w := range l.watches {
		err := l.poll(ctx, "a watcher comes to the last write", func() bool { return w.Last() >= last[w.Scope] })
		if err != nil {
			l.record.Violation("%s is at %d, the last write of its scope at %d: %v", w.Name, w.Last(), last[w.Scope], err)
			return nil, err
		}
	}
	var states []record.List
	for _, resource := range []string{configMaps, secrets, widgets} {
		state, err := l.present(ctx, record.Scope{Resource: resource})
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	l.record.Check(states, l.watches)
	return states, nil
}

// agreeTries is how often all servers are asked until they agree: a write without an answer may take effect
// meanwhile.
const agreeTries = 5

// present returns the present state of a resource, which all servers show.
func (l *Load) present(ctx context.Context, s record.Scope) (record.List, error) {
	for try := 1; ; try++ {
		var lists []record.List
		for _, c := range l.each {
			list, err := l.state(ctx, c, s)
			if err != nil {
				return list, err
			}
			lists = append(lists, list)
		}
		differs := slices.IndexFunc(lists, func(list record.List) bool { return !slices.Equal(list.Items, lists[0].Items) })
		if differs < 0 {
			return lists[0], nil
		}
		if try == agreeTries {
			l.record.Violation("the LIST of %s at %s has %d objects at %d, at %s it has %d at %d, or others", s,
				l.cfg.Several.All[0], len(lists[0].Items), lists[0].RV,
				l.cfg.Several.All[differs], len(lists[differs].Items), lists[differs].RV)
			return lists[0], nil
		}
		wait(ctx, agreePause)
	}
}

const agreePause = 200 * time.Millisecond

// state reads what a server shows of a resource.
func (l *Load) state(ctx context.Context, c *program.Client, s record.Scope) (record.List, error) {
	var a program.Answer
	var least int64
	if err := l.poll(ctx, "a list is answered", func() bool {
		least = l.record.Highest()
		a = c.Do(ctx, http.MethodGet, pathOf(s), nil)
		return a.Code == http.StatusOK || l.cfg.Several == nil
	}); err != nil {
		return record.List{}, fmt.Errorf("list %s: %w: %s", s, err, a)
	}
	var list wire
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Code != http.StatusOK {
		return record.List{}, fmt.Errorf("list %s: %s", s, a)
	}
	if list.rv() < least {
		l.record.Violation("the LIST of %s at %s is at %d, and %d had been given", s, a.At, list.rv(), least)
	}
	return record.List{Scope: s, RV: list.rv(), Items: list.versions(s.Resource), Least: least}, nil
}

// fence writes an object until that is acknowledged: all changes of its scope
// come before it.
func (l *Load) fence(ctx context.Context, c *program.Client, k record.Key) (int64, error) {
	var made *record.Attempt
	err := l.poll(ctx, "a write is acknowledged after a restart", func() bool {
		kind := record.Patch
		if _, exists := l.record.Latest(k); !exists {
			kind = record.Create
		}
		a, answer := l.attempt(ctx, c, record.Attempt{Key: k, Kind: kind, Size: 100})
		made = a
		if answer.Status().Reason == "AlreadyExists" { // by an attempt of unknown outcome
			a, _ = l.attempt(ctx, c, record.Attempt{Key: k, Kind: record.Patch, Size: 100})
			made = a
		}
		return made.Outcome == record.Acknowledged
	})
	if err != nil {
		l.record.Violation("write %s after a restart: %v", k, err)
		return 0, err
	}
	return made.RV, nil
}

// attempt sends a write once, and tells the record what came of it.
func (l *Load) attempt(ctx context.Context, c *program.Client, want record.Attempt) (*record.Attempt, program.Answer) {
	floor := l.record.Highest()
	a := l.record.Begin(want)
	method, path := methodOf(a)
	answer := c.Do(ctx, method, path, body(a))
	switch code := answer.Code; {
	case code == http.StatusOK && a.Kind.Deletes():
		l.record.Removed(a, answer.Status().Details.UID)
	case code == http.StatusOK || code == http.StatusCreated:
		var w wire
		if err := json.Unmarshal(answer.Body, &w); err != nil {
			l.record.Violation("%s %s: the answer is no object: %s", a.Kind, a.Key, answer)
		}
		l.record.Written(a, w.version(a.Key.Resource), floor)
		if several := l.cfg.Several; several != nil && several.Acknowledged != nil {
			several.Acknowledged()
		}
	case refused(answer):
		l.record.Refuse(a)
	case answer.Unsent:
		l.record.Unsent(a)
	case code == 0 || code >= 500:
		l.record.Doubt(a)
	default:
		l.record.Violation("%s %s: %s", a.Kind, a.Key, answer)
		l.record.Refuse(a)
	}
	return a, answer
}

// refused reports whether the server says that it did nothing, and will not.
func refused(answer program.Answer) bool {
	switch answer.Code {
	case http.StatusConflict, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// compact makes the server forget: mostly what is older than a watcher is away,
// and now and then everything.
func (l *Load) compact(ctx context.Context, random *rand.Rand, c *program.Client) {
	for wait(ctx, between(random, l.cfg.Compact)) {
		older := "2s"
		if random.IntN(8) == 0 {
			older = "1ns"
		}
		a := c.Do(ctx, http.MethodPost, "/gapless/v1/compact", encode(map[string]string{"olderThan": older}))
		if a.Code != 0 && a.Code != http.StatusOK && a.Code < 500 {
			l.record.Violation("compact: %s", a)
		}
	}
}

// between is a random time with a mean.
func between(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(2*mean) + 1))
}

// wait returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pollLimit is how long the server may take for what it has to come to, and pollSeveral is how long several ones may
// take, over a storage that has to elect a leader.
const (
	pollLimit   = 30 * time.Second
	pollSeveral = 90 * time.Second
)

func (l *Load) poll(ctx context.Context, what string, ok func() bool) error {
	limit := pollLimit
	if l.cfg.Several != nil {
		limit = pollSeveral
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("waited in vain until "+what))
	defer cancel()
	for !ok() {
		if !wait(ctx, 2*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}
