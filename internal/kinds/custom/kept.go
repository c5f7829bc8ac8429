package custom

import (
	"sync"
	"time"
)

// keepFor is how long something compiled is kept after its last use. To compile a
// schema with rules again takes some milliseconds; to keep it takes 100 KiB.
const keepFor = time.Minute

// kept is a value that is compiled when it is needed, and dropped when it was not needed
// it for a while. It is safe for concurrent use.
type kept[T any] struct {
	compile func() (T, error)

	// mu guards what follows, and lets one caller compile for all.
	mu   sync.Mutex
	made *outcome[T] // nil: not made, or dropped
	used time.Time
}

// outcome is the result of compile.
type outcome[T any] struct {
	value T
	err   error
}

// get returns the value. It blocks while it is made.
func (k *kept[T]) get() (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = time.Now()
	if k.made == nil {
		k.made = &outcome[T]{}
		k.made.value, k.made.err = k.compile()
		time.AfterFunc(keepFor, k.expire)
	}
	return k.made.value, k.made.err
}

// expire drops the value when it was not used for keepFor, or is called again.
func (k *kept[T]) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if left := keepFor - time.Since(k.used); left > 0 {
		time.AfterFunc(left, k.expire)
		return
	}
	k.made = nil
}
