package warm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"
)

const (
	// breath is how many bytes of JSON are made before the writer pauses for as long as
	// that took: a big state is written with half of one core.
	breath = 256 << 10
	// lastWrite is how long the end of Run waits for what has not been written yet. What
	// takes longer is lost, which only means to begin from an older state.
	lastWrite = 50 * time.Millisecond
	// longestPause is how long to wait before the next attempt after many failures.
	longestPause = 5 * time.Minute
)

// errLate says that Run ended before the state was written.
var errLate = errors.New("there was no time to write the newest state at the end")

// Cache is what a writer reads: states of type S, with objects of type T. Its
// functions are called by the writer's goroutine.
type Cache[T Object, S any] struct {
	// Take returns the newest state and what belongs to it; found is false before there
	// is one.
	Take func() (state S, of State, found bool)
	// All yields the objects of a state.
	All func(S) iter.Seq2[Key, T]
	// Changes yields what changed from older to newer, in order, the zero value for what
	// is gone.
	Changes func(newer, older S) iter.Seq2[Key, T]
}

// Settings are what a writer needs beside a cache and a codec.
type Settings struct {
	// Open opens the file. It is called again, after a pause, if that fails.
	Open func() (*File, error)
	// Period is how often the writer looks for changes.
	Period time.Duration
	// Report is told what went wrong.
	Report func(error)
}

// Writer writes down what changed in a cache. It holds on to the state that it wrote
// last. Its methods are called by one goroutine at a time.
type Writer[T Object, S any] struct {
	cache    Cache[T, S]
	codec    Codec[T]
	settings Settings

	file  *File // nil: it could not be opened
	last  S     // what the file holds, if wrote
	wrote bool  // otherwise a whole new file is needed
	ended tail  // of the file, when it was closed
	limit time.Time
	off   bool // nothing is written any more: the objects cannot be
}

// tail is the end of a file, by which it is known again.
type tail struct {
	origin, chain uint32
	end           int64
}

func (f *File) tail() tail { return tail{origin: f.origin, chain: f.chain, end: f.end} }

// NewWriter returns a writer, which Begin makes ready.
func NewWriter[T Object, S any](cache Cache[T, S], codec Codec[T], settings Settings) *Writer[T, S] {
	return &Writer[T, S]{cache: cache, codec: codec, settings: settings}
}

// Begin opens the file, and reports what is wrong with it. It returns nil if it cannot
// be opened now. The writer closes it in Finish.
func (w *Writer[T, S]) Begin() *File {
	w.limit = time.Time{}
	if err := w.open(); err != nil {
		w.report(err)
	}
	return w.file
}

func (w *Writer[T, S]) open() error {
	file, err := w.settings.Open()
	if err != nil {
		return err
	}
	if err := file.Trouble(); err != nil {
		w.report(fmt.Errorf("open the warm start: %w", err))
	}
	w.file = file
	if w.wrote && w.ended != file.tail() {
		w.forget() // somebody else wrote it meanwhile
	}
	return nil
}

func (w *Writer[T, S]) report(err error) { w.settings.Report(err) }

// Loaded says that the cache's newest state is what the file holds.
func (w *Writer[T, S]) Loaded() {
	if last, _, found := w.cache.Take(); found {
		w.last, w.wrote = last, true
	}
}

// forget lets go of the last state: the next one is written whole.
func (w *Writer[T, S]) forget() {
	var none S
	w.last, w.wrote = none, false
}

// Run writes down what changed, once per period, until ctx ends. Failures are
// reported and tried again, after a pause that grows.
func (w *Writer[T, S]) Run(ctx context.Context) {
	pause := w.settings.Period
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !w.off {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if w.attempt(ctx) {
			pause = w.settings.Period
		} else {
			pause = max(w.settings.Period, min(2*pause, longestPause))
		}
		timer.Reset(pause)
	}
}

// Finish writes what changed since, if that is quickly done, and closes the file. ctx
// is that of Run and has ended.
func (w *Writer[T, S]) Finish(ctx context.Context) {
	if !w.off && (w.limit.IsZero() || time.Now().Before(w.limit)) {
		w.attempt(ctx)
	}
	if w.file == nil {
		return
	}
	w.ended = w.file.tail()
	if err := w.file.Close(); err != nil {
		w.report(fmt.Errorf("close the warm start: %w", err))
	}
	w.file = nil
}

// attempt writes, reports what goes wrong, and says whether all is well.
func (w *Writer[T, S]) attempt(ctx context.Context) bool {
	err := w.write(ctx)
	if err == nil {
		return true
	}
	if !errors.Is(err, errLate) {
		// The state that was written last would be held on to for as long as this lasts.
		w.forget()
	}
	if errors.Is(err, ErrLossy) {
		w.off = true
	}
	if w.file != nil {
		err = fmt.Errorf("write the warm start: %w", err)
	}
	w.report(err)
	return false
}

// write writes the difference between the last state and the newest.
func (w *Writer[T, S]) write(ctx context.Context) error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	now, of, found := w.cache.Take()
	if !found {
		return nil
	}
	of.At = time.Now()
	begin, changes := w.file.Append, w.cache.All(now)
	switch {
	case w.wrote && w.file.Holds():
		changes = w.cache.Changes(now, w.last)
		was := w.file.State()
		if maps.Equal(was.Positions, of.Positions) && was.Unread == of.Unread && none(changes) {
			return nil
		}
		if w.file.Stale() {
			begin, changes = w.file.Rewrite, w.cache.All(now)
		}
	default:
		begin = w.file.Rewrite
	}
	batch, err := begin()
	if err != nil {
		return err
	}
	if err := w.add(ctx, batch, changes); err != nil {
		batch.Abort()
		return err
	}
	if err := batch.Commit(of); err != nil {
		return err
	}
	w.last, w.wrote = now, true
	return nil
}

func none[K, V any](seq iter.Seq2[K, V]) bool {
	for range seq {
		return false
	}
	return true
}

// add adds the changes to a batch.
func (w *Writer[T, S]) add(ctx context.Context, batch *Batch, changes iter.Seq2[Key, T]) error {
	enc := encoder[T]{Codec: w.codec}
	made, since := 0, time.Now()
	var gone T
	for key, object := range changes {
		if object == gone {
			if err := batch.Delete(key); err != nil {
				return err
			}
			continue
		}
		raw, err := enc.encode(object)
		if err == nil {
			err = batch.Put(key, raw)
		}
		if err != nil {
			return err
		}
		if made += len(raw); made < breath {
			continue
		}
		if err := w.breathe(ctx, time.Since(since)); err != nil {
			return err
		}
		made, since = 0, time.Now()
	}
	return nil
}

// breathe pauses for as long as was worked, or, when Run has ended, says when it is
// time to give up.
func (w *Writer[T, S]) breathe(ctx context.Context, worked time.Duration) error {
	if ctx.Err() == nil {
		pause := time.NewTimer(worked)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		return nil
	}
	if w.limit.IsZero() {
		w.limit = time.Now().Add(lastWrite)
	}
	if time.Now().After(w.limit) {
		return errLate
	}
	return nil
}
