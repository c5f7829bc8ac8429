package persist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

const (
	// throttleBytes is how many bytes of JSON are encoded before the writer pauses for as
	// long as that took, so that it uses half of one core.
	throttleBytes = 256 << 10
	// lastWrite bounds the write at the end of Run. If it takes longer, the next program
	// begins with an older state.
	lastWrite = 50 * time.Millisecond
	// longestPause is the longest pause between attempts after failures.
	longestPause = 5 * time.Minute
)

// errLate means that Run ended before the state was written.
var errLate = errors.New("there was no time to write the newest state at the end")

// Cache is what a writer reads: states of type S with objects of type T. The writer's
// goroutine calls its functions.
type Cache[T handle.Object, S any] struct {
	// Take returns the newest state of the cache and its State in the file; found is false
	// before the first sync.
	Take func() (state S, of State, found bool)
	// All yields the objects of a state.
	All func(S) iter.Seq2[handle.Key, T]
	// Changes yields the objects that differ between older and newer, in order; the zero
	// value for those that newer lacks.
	Changes func(newer, older S) iter.Seq2[handle.Key, T]
}

// Settings are what a writer needs beside a cache and a codec.
type Settings struct {
	// Open opens the file. If it fails, it is called again after a pause.
	Open func() (*File, error)
	// Period is how often the writer looks for changes.
	Period time.Duration
	// Report is called with each error.
	Report func(error)
}

// Writer writes the changes of a cache to a file. It keeps a reference to the state that
// it wrote last. One goroutine may use it at a time.
type Writer[T handle.Object, S any] struct {
	cache    Cache[T, S]
	codec    Codec[T]
	settings Settings

	file  *File     // nil: it could not be opened
	last  S         // the state in the file, if wrote
	wrote bool      // false: the file must be rewritten
	ended tail      // the end of the file when it was closed
	limit time.Time // when Finish gives up; zero: not set yet
	off   bool      // the objects cannot be written, see ErrLossy
}

// tail identifies the end of a file, to find out whether another process wrote to it.
type tail struct {
	origin, chain uint32
	end           int64
}

func (f *File) tail() tail { return tail{origin: f.origin, chain: f.chain, end: f.end} }

// NewWriter returns a writer. Call Begin before Run.
func NewWriter[T handle.Object, S any](cache Cache[T, S], codec Codec[T], settings Settings) *Writer[T, S] {
	return &Writer[T, S]{cache: cache, codec: codec, settings: settings}
}

// Begin opens the file and reports what is wrong with it. It returns nil if the file
// cannot be opened now. Finish closes it.
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
	if err := file.Damage(); err != nil {
		w.report(fmt.Errorf("open the snapshot file: %w", err))
	}
	w.file = file
	if w.wrote && w.ended != file.tail() {
		w.forget() // another process wrote to it
	}
	return nil
}

func (w *Writer[T, S]) report(err error) { w.settings.Report(err) }

// Loaded records that the cache's newest state is the state in the file.
func (w *Writer[T, S]) Loaded() {
	if last, _, found := w.cache.Take(); found {
		w.last, w.wrote = last, true
	}
}

// forget drops the last state, so that the next one is written as a whole.
func (w *Writer[T, S]) forget() {
	var none S
	w.last, w.wrote = none, false
}

// Run writes the changes once per period until ctx ends. Failures are reported and
// retried after growing pauses.
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

// Finish writes the changes since the last period, if that takes no longer than lastWrite,
// and closes the file. ctx is that of Run and has ended.
func (w *Writer[T, S]) Finish(ctx context.Context) {
	if !w.off && (w.limit.IsZero() || time.Now().Before(w.limit)) {
		w.attempt(ctx)
	}
	if w.file == nil {
		return
	}
	w.ended = w.file.tail()
	if err := w.file.Close(); err != nil {
		w.report(fmt.Errorf("close the snapshot file: %w", err))
	}
	w.file = nil
}

// attempt writes the changes, reports an error, and returns whether there was none.
func (w *Writer[T, S]) attempt(ctx context.Context) bool {
	err := w.write(ctx)
	if err == nil {
		return true
	}
	if !errors.Is(err, errLate) {
		// Otherwise the last state would stay in memory until a write succeeds.
		w.forget()
	}
	if errors.Is(err, ErrLossy) {
		w.off = true
	}
	if w.file != nil {
		err = fmt.Errorf("write the snapshot file: %w", err)
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
func (w *Writer[T, S]) add(ctx context.Context, batch *Batch, changes iter.Seq2[handle.Key, T]) error {
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
		if made += len(raw); made < throttleBytes {
			continue
		}
		if err := w.throttle(ctx, time.Since(since)); err != nil {
			return err
		}
		made, since = 0, time.Now()
	}
	return nil
}

// throttle pauses for as long as the writer worked. When Run has ended it does not pause,
// and returns errLate after lastWrite.
func (w *Writer[T, S]) throttle(ctx context.Context, worked time.Duration) error {
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
