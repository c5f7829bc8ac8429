package durable

import (
	"fmt"
	"sync"
	"time"
)

// Space is what there is of a file system, in bytes.
type Space struct {
	// Free is what a program without special rights may still write, and Total the size of the file system.
	Free, Total int64
}

// spaceWithin is how long SpaceOf waits for a file system: that of a server that cannot be reached does not answer, and who
// asks wants to know what else there is to say.
const spaceWithin = time.Second

// SpaceOf returns the space of the file system that a directory is in. It blocks for at most a second. Errors: those of the
// system; that it does not answer; one that wraps errors.ErrUnsupported where the program cannot ask it.
func SpaceOf(dir string) (Space, error) {
	of, err := spaces.of(dir, spaceOf)
	if err != nil {
		return Space{}, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return of, nil
}

//nolint:gochecknoglobals // the file systems are the process', too
var spaces questions

// questions are those about directories that were not answered yet. Who asks about one of them waits for its answer: so
// there is at most one goroutine for each directory, however long its file system does not answer.
type questions struct {
	mu   sync.Mutex
	open map[string]*question
}

type question struct {
	answered chan struct{} // closed
	space    Space
	err      error
}

func (q *questions) of(dir string, ask func(dir string) (Space, error)) (Space, error) {
	this := q.ask(dir, ask)
	late := time.NewTimer(spaceWithin)
	defer late.Stop()
	select {
	case <-this.answered:
		return this.space, this.err
	case <-late.C:
		return Space{}, fmt.Errorf("the file system has not answered for %v", spaceWithin)
	}
}

// ask returns the question about a directory, which it asks unless it is open.
func (q *questions) ask(dir string, ask func(dir string) (Space, error)) *question {
	q.mu.Lock()
	defer q.mu.Unlock()
	if this := q.open[dir]; this != nil {
		return this
	}
	if q.open == nil {
		q.open = map[string]*question{}
	}
	this := &question{answered: make(chan struct{})}
	q.open[dir] = this
	go func() { // ends when the system answers
		this.space, this.err = ask(dir)
		q.mu.Lock()
		delete(q.open, dir)
		q.mu.Unlock()
		close(this.answered)
	}()
	return this
}
