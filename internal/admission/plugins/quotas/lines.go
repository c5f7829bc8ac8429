package quotas

import (
	"context"
	"sync"
)

// lines has a line of jobs for each namespace. Of those that wait at the same time one serves all.
type lines struct {
	// mu guards of, and what is in it.
	mu sync.Mutex
	of map[string]*line
}

// line is the jobs of a namespace, while one of them serves.
type line struct{ waiting []*job }

// job is a request to charge, or charges to give back.
type job struct {
	request *request
	give    []charge

	done chan struct{} // closed when it is served
	lead chan struct{} // closed when it is to serve those that wait, itself among them
	err  error         // set before done is closed
}

// pass returns when a job is served: with others, by its own goroutine or that of another one. Errors: those of the
// job, and ctx's cause for one that nobody has begun to serve.
func (l *lines) pass(ctx context.Context, namespace string, j *job, serve func(context.Context, string, []*job)) error {
	j.done, j.lead = make(chan struct{}), make(chan struct{})
	l.mu.Lock()
	of := l.of[namespace]
	if of == nil {
		of = &line{}
		l.of[namespace] = of
		close(j.lead)
	}
	of.waiting = append(of.waiting, j)
	l.mu.Unlock()
	select {
	case <-j.done:
		return j.err
	case <-j.lead:
	case <-ctx.Done():
		if l.leave(namespace, j) {
			return context.Cause(ctx)
		}
		select { // others depend on it, or it is nearly done
		case <-j.done:
			return j.err
		case <-j.lead:
		}
	}
	l.serve(ctx, namespace, serve)
	return j.err
}

// leave takes a job out of its line, and reports whether it was still waiting there.
func (l *lines) leave(namespace string, j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-j.lead:
		return false
	default:
	}
	of := l.of[namespace]
	if of == nil {
		return false
	}
	for i, other := range of.waiting {
		if other == j {
			of.waiting = append(of.waiting[:i:i], of.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// serve serves those that wait now, and lets the first of those that have come meanwhile serve the next.
func (l *lines) serve(ctx context.Context, namespace string, serve func(context.Context, string, []*job)) {
	l.mu.Lock()
	of := l.of[namespace]
	batch := of.waiting
	of.waiting = nil
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		if len(of.waiting) > 0 {
			close(of.waiting[0].lead)
		} else {
			delete(l.of, namespace)
		}
		l.mu.Unlock()
		for _, j := range batch {
			close(j.done)
		}
	}()
	// For all of them, whoever leaves: each has its own time.
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer stop()
	serve(limited, namespace, batch)
}
