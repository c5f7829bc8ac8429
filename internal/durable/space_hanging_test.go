package durable

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAFileSystemThatHangsIsAskedOnce: who asks meanwhile waits for a second, and later it is asked again.
func TestAFileSystemThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q questions
		var asked atomic.Int64
		answer := make(chan Space)
		hangs := func(string) (Space, error) {
			asked.Add(1)
			return <-answer, nil
		}
		began := time.Now()
		for range 3 {
			if _, err := q.of("d", hangs); err == nil {
				t.Error("there is an answer")
			}
		}
		if took := time.Since(began); took != 3*spaceWithin || asked.Load() != 1 {
			t.Errorf("asked %d times, and waited for %v", asked.Load(), took)
		}
		other := Space{Free: 1, Total: 2}
		if got, err := q.of("other", func(string) (Space, error) { return other, nil }); got != other || err != nil {
			t.Errorf("another file system: %v, %v", got, err)
		}
		answer <- Space{Free: 3, Total: 4}
		synctest.Wait()
		if got, err := q.of("d", func(string) (Space, error) { return other, nil }); got != other || err != nil {
			t.Errorf("it is not asked again: %v, %v", got, err)
		}
		if len(q.open) != 0 {
			t.Errorf("%d questions are open", len(q.open))
		}
	})
}
