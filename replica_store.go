package gapless

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// patientStore is the store of a replica that says soon that etcd does not answer. Readers who need
// what etcd has now, and writers, then get 503 at once, until etcd answers again. Readers with
// resourceVersion=0 and watches need no answer: they are served the last state.
type patientStore struct {
	*etcd.Store

	read     func(ctx context.Context) (int64, error) // Progress of the store
	patience time.Duration
	silent   atomic.Bool   // etcd did not answer the last read in time
	wake     chan struct{} // holds one token: ask etcd
}

func newPatientStore(of *etcd.Store, patience time.Duration) *patientStore {
	return &patientStore{
		Store: of, read: of.Progress, patience: patience, wake: make(chan struct{}, 1),
	}
}

// askAgain is how often etcd is asked while it does not answer.
const askAgain = 500 * time.Millisecond

var errSilent = errors.New(
	"etcd has not answered in time: it has no quorum, it cannot be reached, or this replica is behind")

// run asks etcd whether it answers, while it does not, until ctx ends.
func (s *patientStore) run(ctx context.Context) error {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
		for s.ask(ctx); s.silent.Load(); s.ask(ctx) {
			select {
			case <-time.After(askAgain): // etcd may have refused at once, and those who are refused here wake too
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// ask reads etcd's revision, and notes whether it answers in time.
func (s *patientStore) ask(ctx context.Context) { _, _ = s.progress(ctx) }

func (s *patientStore) progress(ctx context.Context) (int64, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.patience, errSilent)
	defer cancel()
	rev, err := s.read(limited)
	if err == nil {
		s.silent.Store(false)
		return rev, nil
	}
	if _, away := errors.AsType[*store.UnavailableError](err); away || errors.Is(err, errSilent) {
		s.silent.Store(true)
		s.poke()
	}
	return rev, err
}

func (s *patientStore) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// away returns why etcd counts as away; nil: it does not.
func (s *patientStore) away() error {
	if s.silent.Load() {
		return errSilent
	}
	return s.Connected()
}

// Progress implements store.Store.
func (s *patientStore) Progress(ctx context.Context) (int64, error) {
	if s.silent.Load() {
		return 0, unreadable(errSilent)
	}
	rev, err := s.progress(ctx)
	if errors.Is(err, errSilent) {
		return 0, unreadable(errSilent)
	}
	return rev, err
}

func unreadable(cause error) error {
	return &store.UnavailableError{Reading: true, Cause: fmt.Errorf("%w; resourceVersion=0 reads the last known state", cause)}
}

// Commit implements store.Store.
func (s *patientStore) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if away := s.away(); away != nil {
		s.poke()
		return store.Committed{}, &store.UnavailableError{Cause: away}
	}
	defer time.AfterFunc(s.patience, s.poke).Stop() // so that others do not wait as long
	return s.Store.Commit(ctx, t)
}

// withAge says how old the answers to reads may be, while the etcd of their resource is away.
func (r *replica) withAge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			if c := r.ofPath(req.URL.Path); c.patient.away() != nil {
				w.Header().Set("Age", strconv.FormatInt(ageSeconds(c.store.Age()), 10))
			}
		}
		next.ServeHTTP(w, req)
	})
}

// ageSeconds rounds up: what is served is not older than that.
func ageSeconds(age time.Duration) int64 { return int64((age + time.Second - 1) / time.Second) }

// ofPath returns the cluster of the resource that a request is about; that of --etcd-servers if it is about none.
func (r *replica) ofPath(path string) *etcdCluster {
	if len(r.apart) == 0 {
		return r.main
	}
	gvr, rest := kinds.GroupVersionResource{}, strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case rest[0] == "api" && len(rest) > 2:
		gvr.Version, rest = rest[1], rest[2:]
	case rest[0] == "apis" && len(rest) > 3:
		gvr.Group, gvr.Version, rest = rest[1], rest[2], rest[3:]
	default:
		return r.main
	}
	if rest[0] == "watch" && len(rest) > 1 {
		rest = rest[1:]
	}
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		rest = rest[2:]
	}
	gvr.Resource = rest[0]
	resource, found := r.live.Load().Lookup(gvr)
	if !found {
		return r.main
	}
	return r.of(resource.Home().GR().String())
}
