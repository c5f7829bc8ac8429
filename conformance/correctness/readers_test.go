package correctness_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/testing/correctness"
)

// readsOfEach bounds the work of judging them.
const readsOfEach = 400

// reader gets and lists until ctx ends.
func (r *run) reader(ctx context.Context, d dice) error {
	for range readsOfEach {
		openings := r.openings.Load()
		known := r.acked.Load()
		op := correctness.Operation{Start: time.Now()}
		var err error
		var asked uint64
		if d.IntN(3) == 0 {
			asked, err = r.get(ctx, d, known, &op)
		} else {
			asked, err = r.list(ctx, d, known, &op)
		}
		op.End = time.Now()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the run
		case err == nil:
			r.history.saw(read{Operation: op, known: known})
		case apierrors.IsResourceExpired(err):
			r.history.refused(expiry{asked: asked, marked: r.marked.Load()})
		case r.passing(openings):
			r.history.cutOff()
		default:
			return fmt.Errorf("%s %s: %w", op.Request.Op, op.Request.Key, err)
		}
		pause(ctx, time.Duration(d.IntN(8))*time.Millisecond)
	}
	return nil
}

// passing says that an error may come of a restart: one was under way since
// openings was read.
func (r *run) passing(openings int64) bool {
	if r.openings.Load() != openings {
		return true
	}
	if r.gate.TryRLock() {
		r.gate.RUnlock()
		return r.openings.Load() != openings
	}
	return true
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (r *run) get(ctx context.Context, d dice, known uint64, op *correctness.Operation) (asked uint64, err error) {
	key, _, _ := d.key()
	opts := storage.GetOptions{IgnoreNotFound: d.IntN(2) == 0}
	switch d.IntN(3) {
	case 0:
		opts.ResourceVersion = "0"
	case 1:
		asked = d.past(known)
		opts.ResourceVersion = strconv.FormatUint(asked, 10)
	}
	op.Request = correctness.Request{Op: correctness.OpGet, Key: key, Get: correctness.GetRequest{Options: opts}}
	out := &example.Pod{}
	err = r.storage.Get(ctx, key, opts, out)
	if storage.IsNotFound(err) {
		op.Response.Err = err
		return asked, nil
	}
	op.Response.Object = out
	return asked, err
}

// list lists at every setting of resourceVersion. What comes in pages is recorded
// as the one exact list that it must be.
func (r *run) list(ctx context.Context, d dice, known uint64, op *correctness.Operation) (asked uint64, err error) {
	key, recursive := d.scope()
	opts := storage.ListOptions{Recursive: recursive, Predicate: d.predicate()}
	at := func(match metav1.ResourceVersionMatch) {
		asked = d.past(known)
		opts.ResourceVersion, opts.ResourceVersionMatch = strconv.FormatUint(asked, 10), match
	}
	switch d.IntN(6) {
	case 0:
		opts.ResourceVersion = "0"
	case 1:
		at(metav1.ResourceVersionMatchNotOlderThan)
	case 2:
		at("")
	case 3, 4:
		at(metav1.ResourceVersionMatchExact)
	}
	op.Request = correctness.Request{Op: correctness.OpList, Key: key, List: correctness.ListRequest{Options: opts}}
	all := &example.PodList{}
	op.Response.Object = all
	if !recursive || d.IntN(2) == 0 || opts.ResourceVersion == "0" {
		return asked, r.storage.GetList(ctx, key, opts, all)
	}
	paged := opts
	paged.Predicate.Limit = int64(1 + d.IntN(6))
	all.Items = []example.Pod{}
	for {
		page := &example.PodList{}
		if err := r.storage.GetList(ctx, key, paged, page); err != nil {
			if rv, parsed := strconv.ParseUint(all.ResourceVersion, 10, 64); parsed == nil {
				asked = rv // of the token
			}
			return asked, err
		}
		if all.ResourceVersion != "" && page.ResourceVersion != all.ResourceVersion {
			return asked, fmt.Errorf("a page at %s after one at %s", page.ResourceVersion, all.ResourceVersion)
		}
		all.ResourceVersion = page.ResourceVersion
		all.Items = append(all.Items, page.Items...)
		if page.Continue == "" {
			break
		}
		paged.ResourceVersion, paged.ResourceVersionMatch, paged.Predicate.Continue = "", "", page.Continue
		pause(ctx, time.Duration(d.IntN(4))*time.Millisecond)
	}
	if opts.ResourceVersion != "" && opts.ResourceVersionMatch == "" {
		// With a limit this is an exact list.
		op.Request.List.Options.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	return asked, nil
}

// watcher opens watches, and resumes them where they ended, until ctx ends; then
// the last one continues until it has reported the revision of the last write.
func (r *run) watcher(ctx context.Context, d dice, end <-chan uint64) error {
	var final uint64
	for {
		during := ctx
		if final != 0 {
			during = context.WithoutCancel(ctx)
		}
		c, done, err := r.follow(during, d, final)
		if err != nil {
			return err
		}
		if c != nil {
			r.history.followed(*c)
		}
		if done {
			return nil
		}
		if ctx.Err() != nil && final == 0 {
			if final = <-end; final == 0 {
				return nil // another goroutine has failed
			}
		}
	}
}

// watching makes the options of a new watch.
func (r *run) watching(d dice) correctness.WatchRequest {
	key, recursive := d.scope()
	opts := storage.ListOptions{Recursive: recursive, Predicate: d.predicate()}
	opts.Predicate.AllowWatchBookmarks = true
	known := r.acked.Load()
	send := d.IntN(2) == 0
	switch d.IntN(4) {
	case 0:
		opts.SendInitialEvents = &send
	case 1:
		opts.ResourceVersion, opts.SendInitialEvents = "0", &send
	case 2:
		opts.ResourceVersion, opts.SendInitialEvents = strconv.FormatUint(d.past(known), 10), &send
	default:
		opts.ResourceVersion = strconv.FormatUint(d.past(known), 10)
	}
	if opts.SendInitialEvents != nil {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		if !send && opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			opts.ResourceVersionMatch = "" // for the validator a lower bound, otherwise
		}
	}
	return correctness.WatchRequest{Key: key, Options: opts}
}

// follow is one chain, nil if there is nothing in it to judge. final is 0 while
// there are writes; then the chain is done when it has told a position at or after it.
func (r *run) follow(ctx context.Context, d dice, final uint64) (c *chain, done bool, err error) {
	first := r.watching(d)
	request := first
	c = &chain{Request: first}
	for links := 1 + d.IntN(5); ; links-- {
		events, err := r.stream(ctx, d, request, final)
		if err != nil {
			return nil, false, err
		}
		c.streams++
		c.Response.Events = append(c.Response.Events, events...)
		position, begun := positionOf(first, c.Response.Events)
		if len(c.Response.Events) == 0 || !begun {
			return nil, false, nil
		}
		tail := c.Response.Events[len(c.Response.Events)-1]
		c.caughtUp = final != 0 && tail.Type == watch.Bookmark && position >= final
		switch {
		case c.caughtUp:
			return c, true, nil
		case tail.Type == watch.Error:
			return c, false, nil // 410, or a restart: a new one begins
		case final != 0:
			return nil, false, fmt.Errorf("watch %s: at %d, and not at %d in %v", first.Key, position, final, longer(final))
		case links <= 0 || ctx.Err() != nil:
			return c, false, nil //nolint:nilerr // the end of the run
		}
		request.Options.ResourceVersion = strconv.FormatUint(position, 10)
		request.Options.SendInitialEvents, request.Options.ResourceVersionMatch = nil, ""
	}
}

// positionOf is from where a watch can be resumed; not before the end of its
// initial events.
func positionOf(request correctness.WatchRequest, events []watch.Event) (rv uint64, begun bool) {
	begun = request.Options.SendInitialEvents == nil || !*request.Options.SendInitialEvents
	for _, e := range events {
		if e.Type == watch.Bookmark {
			begun = true
		}
		rv = max(rv, rvOf(e))
	}
	return rv, begun
}

// stream is one watch, until it ends or has lasted for a while.
func (r *run) stream(ctx context.Context, d dice, request correctness.WatchRequest, final uint64) ([]watch.Event, error) {
	openings := r.openings.Load()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(20+d.IntN(d.IntN(1500)+1))*time.Millisecond+longer(final))
	defer cancel()
	w, err := r.storage.Watch(ctx, request.Key, request.Options)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil
	case err != nil && r.passing(openings):
		r.history.cutOff()
		pause(ctx, 5*time.Millisecond)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("watch %s: %w", request.Key, err)
	}
	defer w.Stop()
	var events []watch.Event
	for e := range w.ResultChan() {
		events = append(events, e)
		if e.Type == watch.Error {
			if err := r.ended(e.Object, request, lastRV(request, events), openings); err != nil {
				return nil, err
			}
		}
		if final != 0 && e.Type == watch.Bookmark && rvOf(e) >= final {
			break
		}
		if d.IntN(10) == 0 {
			pause(ctx, time.Duration(d.IntN(5))*time.Millisecond) // a slow reader
		}
	}
	if whole(request, events) {
		r.history.watched(correctness.WatchOperation{Request: request, Response: correctness.WatchResponse{Events: events}})
	}
	return events, nil
}

// whole says that a watch has not ended within its initial events, of which upstream's
// validator can say nothing.
func whole(request correctness.WatchRequest, events []watch.Event) bool {
	_, begun := positionOf(request, events)
	return begun
}

// longer is how much longer a watch may last when it has to catch up.
func longer(final uint64) time.Duration {
	if final == 0 {
		return 0
	}
	return 30 * time.Second
}

// lastRV is the highest resourceVersion that a watch was asked for or has sent.
func lastRV(request correctness.WatchRequest, events []watch.Event) uint64 {
	rv, _ := strconv.ParseUint(request.Options.ResourceVersion, 10, 64) // 0 for none
	for _, e := range events {
		rv = max(rv, rvOf(e))
	}
	return rv
}

// ended judges an ERROR event.
func (r *run) ended(o runtime.Object, request correctness.WatchRequest, position uint64, openings int64) error {
	status, is := o.(*metav1.Status)
	if !is {
		return fmt.Errorf("an ERROR event with a %T", o)
	}
	if status.Reason == metav1.StatusReasonExpired {
		r.history.refused(expiry{asked: position, marked: r.marked.Load()})
		return nil
	}
	if err := apierrors.FromObject(status); !r.passing(openings) {
		return fmt.Errorf("watch %s: %w", request.Key, err)
	}
	r.history.cutOff()
	return nil
}
