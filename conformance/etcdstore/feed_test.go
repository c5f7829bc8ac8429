package etcdstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
)

var errNoKeys = errors.New("the key management service does not answer")

// encryptedLayout is a layout whose values cannot be decoded while it is locked.
type encryptedLayout struct {
	plain

	mu     sync.Mutex
	locked bool
	asked  int           // how often a value was asked for in vain
	moved  chan struct{} // closed and replaced when that grows
}

func (l *encryptedLayout) AppendDecoded(b []byte, key string, stored []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locked {
		l.asked++
		close(l.moved)
		l.moved = make(chan struct{})
		return nil, &store.UnreadableError{Key: key, Encryption: "kms", Temporary: true, Cause: errNoKeys}
	}
	return l.plain.AppendDecoded(b, key, stored)
}

func (l *encryptedLayout) lock(locked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locked, l.asked = locked, 0
}

// wait waits until values were asked for in vain n times.
func (l *encryptedLayout) wait(ctx context.Context) bool {
	const n = 2
	for ctx.Err() == nil {
		l.mu.Lock()
		asked, moved := l.asked, l.moved
		l.mu.Unlock()
		if asked >= n {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
	return false
}

// TestAFeedThatCannotBeginAgainWaitsForTheKeys: any other one fails, and can be read again.
func TestAFeedThatCannotBeginAgainWaitsForTheKeys(t *testing.T) {
	layout := &encryptedLayout{plain: "/registry/", moved: make(chan struct{})}
	o := optionsFor(startEtcd(t).URL())
	o.Layout = layout
	s := run(t, o)
	ctx := within(t)
	first, err := s.Commit(ctx, store.Txn{Key: "pods/a", Value: []byte("1")})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	feeds := map[bool]store.Changes{}
	for _, hold := range []bool{false, true} {
		if feeds[hold], err = s.Changes(ctx, store.From{After: first.Revision, Hold: hold}); err != nil {
			t.Fatalf("read the changes: %v", err)
		}
	}
	second := store.Txn{Key: "pods/a", Value: []byte("2"), ExpectedModRevision: first.Revision}
	if _, err := s.Commit(ctx, second); err != nil {
		t.Fatalf("commit: %v", err)
	}
	layout.lock(true)
	if _, err := feeds[false].Next(ctx); err == nil {
		t.Error("a change that cannot be decrypted is delivered")
	}
	var batch store.Batch
	ended := make(chan error, 1)
	go func() { // ends with the batch
		var err error
		batch, err = feeds[true].Next(ctx)
		ended <- err
	}()
	if !layout.wait(ctx) {
		t.Error("a value that cannot be decrypted for now is not asked for again")
	}
	layout.lock(false)
	if err := <-ended; err != nil {
		t.Errorf("a feed that cannot begin again ends without the keys: %v", err)
	}
	again, err := feeds[false].Next(ctx)
	if err != nil {
		t.Errorf("read a feed again once the keys are there: %v", err)
	}
	for _, b := range []store.Batch{batch, again} {
		if len(b.Changes) != 1 || string(b.Changes[0].Value) != "2" || string(b.Changes[0].Previous.Value) != "1" {
			t.Errorf("once the keys are there, the batch is %+v", b)
		}
	}
	for _, feed := range feeds {
		if err := feed.Close(); err != nil {
			t.Errorf("close a feed: %v", err)
		}
	}
}
