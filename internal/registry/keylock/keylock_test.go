package keylock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/registry/keylock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWritersOfAKeyQueueWhileItsLockIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all keylock.Locks
		if unlock, err := all.Join(t.Context(), "a"); unlock != nil || err != nil {
			t.Fatalf("a lock without a queue, %v", err)
		}
		release, err := all.Lock(t.Context(), "a")
		if err != nil {
			t.Fatalf("lock all of them: %v", err)
		}
		if unlock, err := all.Join(t.Context(), "b"); unlock != nil || err != nil {
			t.Errorf("another key: a lock, %v", err)
		}
		joined := make(chan string)
		releases := map[string]func(){}
		for _, name := range []string{"second", "third"} {
			go func() {
				unlock, err := all.Join(t.Context(), "a")
				if err != nil || unlock == nil {
					t.Errorf("%s: no lock, %v", name, err)
				}
				releases[name] = unlock
				joined <- name
			}()
			synctest.Wait()
		}
		for _, want := range []string{"second", "third"} {
			select {
			case name := <-joined:
				t.Fatalf("%s has the lock before its turn", name)
			default:
			}
			release()
			if name := <-joined; name != want {
				t.Fatalf("%s has the lock, want %s", name, want)
			}
			release = releases[want]
		}
		release()
		if unlock, err := all.Join(t.Context(), "a"); unlock != nil || err != nil {
			t.Errorf("the queue is not empty in the end: %v", err)
		}
	})
}

func TestCanceledWaiterLeavesTheQueue(t *testing.T) {
	var all keylock.Locks
	release, err := all.Lock(t.Context(), "a")
	if err != nil {
		t.Fatalf("lock all of them: %v", err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("gone")
	cancel(why)
	if _, err := all.Lock(gone, "a"); !errors.Is(err, why) {
		t.Errorf("Lock: %v", err)
	}
	if _, err := all.Join(gone, "a"); !errors.Is(err, why) {
		t.Errorf("Join: %v", err)
	}
	release()
	if unlock, err := all.Join(t.Context(), "a"); unlock != nil || err != nil {
		t.Errorf("a lock in the end, %v", err)
	}
}
