package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/store/failing"
)

// StoreWrite makes writes to the store fail or wait: behind admission, and behind the checks
// of preconditions, which a request that is refused at once does not reach. The answer to a
// write that fails is 500, as when etcd does not answer in time.
type StoreWrite struct {
	// Fail is "before", the write is not done; "after", it is done, but nobody knows; or "",
	// it does not fail.
	Fail string `json:"fail,omitzero"`
	// Delay is how long a write waits. Another write of the object can come first meanwhile.
	Delay time.Duration `json:"delay,omitzero"`
	// Writes is how many writes of a request are done before: the deletion of a collection
	// has one for each object.
	Writes int `json:"writes,omitzero"`
}

// Serve implements Action.
func (s *StoreWrite) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var writes atomic.Int64
	around := s.around(r.Context())
	ctx := failing.With(r.Context(), func(ctx context.Context, write func() error) error {
		if writes.Add(1) <= int64(s.Writes) {
			return write()
		}
		return around(ctx, write)
	})
	next.ServeHTTP(w, r.WithContext(ctx))
	if writes.Load() == 0 {
		injectionOf(r.Context()).rule.failed(
			errors.New("the last request wrote nothing: it was refused, changed nothing, or its store is in another process"))
	}
}

// around is what happens to a write, until this rule is removed: the context of the write has the
// innermost rule.
func (s *StoreWrite) around(rule context.Context) failing.Around {
	return func(_ context.Context, write func() error) error {
		pause(rule, s.Delay)
		failed := errors.New("etcdserver: request timed out")
		switch s.Fail {
		case "before":
			return failed
		case "after":
			return errors.Join(write(), failed)
		}
		return write()
	}
}

func (s *StoreWrite) check(*Rule, host) error {
	switch {
	case s.Fail != "" && s.Fail != "before" && s.Fail != "after":
		return fmt.Errorf("with.fail is %q: want before or after", s.Fail)
	case s.Delay < 0 || s.Writes < 0:
		return errors.New("with.delay and with.writes cannot be negative")
	case s.Fail == "" && s.Delay == 0:
		return errors.New("set with.fail to before or after, or with.delay to a duration like 500ms")
	}
	return nil
}
