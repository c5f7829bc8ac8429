// Package keylock orders the writers of one object that many write at once.
//
// [Locks] are fair locks, one for each key. A queue is the writer that holds a key's lock, and
// those that wait for it.
package keylock

import (
	"context"
	"sync"
)

// Locks are the locks of all keys. The zero value is ready. It is safe for concurrent
// use.
type Locks struct {
	// mu guards queues.
	mu     sync.Mutex
	queues map[string]*queue
}

// queue is the holder of a lock and those that wait for it.
type queue struct {
	lock    chan struct{} // holds one token: its sender holds the lock
	members int           // guarded by Locks.mu
}

// Join takes the key's lock like Lock if another writer holds it or waits for it.
// Otherwise it takes nothing, and unlock is nil. It returns ctx's cause when ctx ends first.
func (l *Locks) Join(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	contended := l.queues[key] != nil
	l.mu.Unlock()
	if !contended {
		return nil, nil
	}
	return l.Lock(ctx, key)
}

// Lock takes the key's lock, first come first served. The caller calls unlock, once. It
// returns ctx's cause when ctx ends first.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	q := l.enter(key)
	select {
	case q.lock <- struct{}{}:
		return func() {
			<-q.lock
			l.leave(key, q)
		}, nil
	case <-ctx.Done():
		l.leave(key, q)
		return nil, context.Cause(ctx)
	}
}

func (l *Locks) enter(key string) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[key]
	if q == nil {
		if l.queues == nil {
			l.queues = map[string]*queue{}
		}
		q = &queue{lock: make(chan struct{}, 1)}
		l.queues[key] = q
	}
	q.members++
	return q
}

func (l *Locks) leave(key string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.members--; q.members == 0 {
		delete(l.queues, key)
	}
}
