// Package seed creates the objects of manifests at the start of a server.
//
// A [Seeder] applies the manifests of some files: first it checks all of them and writes
// nothing if one is wrong, then it writes what is missing or differs. An entry is one object
// of the manifests, with its place in them. A [Result] counts what was done. An [Error] has
// all problems, each with file, line and object.
//
// Each manifest is applied as by server-side apply with the field manager "gapless", by
// force: what it has replaces what the object has, whoever has set it, what it had at an
// earlier start and has no longer goes away, and what only others have set stays. An apply
// that changes nothing writes nothing.
//
// check.go checks manifests, write.go writes them; docs/seeding.md.
package seed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/seed/manifest"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what a Seeder needs of a registry.
type Verbs interface {
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Patch(ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions) (wire.Written, error)
	// Check returns what would be refused in a configuration that is applied and creates an
	// object, whatever is stored.
	Check(t kinds.Target, body []byte) error
}

// Config says what a Seeder applies. All members are required.
type Config struct {
	Verbs  Verbs
	Live   *kinds.Live
	Files  *manifest.Files
	Logger *slog.Logger
}

const (
	// writers is how many objects are written concurrently, so that they share the syncs of
	// the store.
	writers = 32
	// progressEvery is the time between two messages about the progress.
	progressEvery = 5 * time.Second
	// maxProblems bounds the problems that are kept; the others are counted.
	maxProblems = 1000
	// maxWarnings bounds the warnings of the server that are logged.
	maxWarnings = 100
)

// Result counts what was done.
type Result struct {
	Files                       int
	Created, Updated, Unchanged int
}

// Seeder applies manifests. Apply is called once.
type Seeder struct {
	Config

	catalog *kinds.Catalog // with the definitions of the manifests
	kinds   map[kinds.GroupVersionKind]*kinds.Resource
	entries []entry // in the order of the files
	// namespaces says of each namespace that an entry names whether it exists.
	namespaces map[string]bool

	// mu guards the fields below.
	mu       sync.Mutex
	result   Result
	problems []Problem
	more     int // problems that are not in problems
	warned   int
	reported time.Time
}

// New returns a Seeder; it reads nothing.
func New(cfg Config) *Seeder { return &Seeder{Config: cfg, namespaces: map[string]bool{}} }

// Apply applies the manifests, and returns when all objects are durable and visible. It is
// called when the registry is ready, and before others write. Errors: *Error, or ctx's
// cause if ctx ends first.
func (s *Seeder) Apply(ctx context.Context) (Result, error) {
	began := time.Now()
	s.result.Files, s.reported = s.Files.Len(), began
	s.Logger.LogAttrs(ctx, slog.LevelInfo, "check manifests", slog.Int("files", s.result.Files))
	if err := s.index(ctx); err != nil {
		return Result{}, err
	}
	if err := s.check(ctx); err != nil {
		return Result{}, err
	}
	if err := s.failure(true); err != nil {
		return Result{}, err
	}
	for _, p := range phases() {
		if err := s.write(ctx, p); err != nil {
			return s.result, err
		}
		if err := s.failure(false); err != nil {
			return s.result, err
		}
	}
	s.Logger.LogAttrs(ctx, slog.LevelInfo, "applied manifests",
		slog.Int("files", s.result.Files), slog.Int("created", s.result.Created), slog.Int("updated", s.result.Updated),
		slog.Int("unchanged", s.result.Unchanged), slog.Int64("took_ms", time.Since(began).Milliseconds()))
	return s.result, nil
}

// phase is a part of the objects that is written before the next part.
type phase int

const (
	namespaces phase = iota
	definitions
	others
)

func phases() []phase { return []phase{namespaces, definitions, others} }

func phaseOf(r *kinds.Resource) phase {
	switch {
	case r.GR() == kinds.GroupResource{Resource: "namespaces"}:
		return namespaces
	case r.IsDefinition():
		return definitions
	}
	return others
}

// progress logs how far the Seeder is, if the last time was long ago.
func (s *Seeder) progress(ctx context.Context, doing string, done int) {
	if time.Since(s.reported) < progressEvery {
		return
	}
	s.reported = time.Now()
	s.Logger.LogAttrs(ctx, slog.LevelInfo, "progress of the manifests", slog.String("step", doing), slog.Int("done", done),
		slog.Int("objects", len(s.entries)))
}

// isReason reports whether an error is a Status with this reason.
func isReason(err error, reason metav1.StatusReason) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == reason
}

// Problem is why one document or object cannot be applied.
type Problem struct {
	File string
	// Line is where the document begins, or where the error is; 0: unknown.
	Line int
	// Document and Item count from 1; Item is 0 outside of a List.
	Document, Item int
	// Object is its kind and name, "Deployment shop/web"; "" if the document has none.
	Object string
	Cause  error
}

// String returns "shop/web.yaml:12: document 3: Deployment shop/web: why".
func (p Problem) String() string {
	text := p.File
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Document > 0 {
		text += fmt.Sprintf(": document %d", p.Document)
	}
	if p.Item > 0 {
		text += fmt.Sprintf(", item %d", p.Item)
	}
	if p.Object != "" {
		text += ": " + p.Object
	}
	return text + ": " + p.Cause.Error()
}

// Error has the problems of manifests.
type Error struct {
	Problems []Problem // in the order of the files; at most 1000
	More     int       // problems that are not in Problems
	// Nothing says that nothing was written. Otherwise Result was.
	Nothing bool
	Result  Result
}

func (e *Error) Error() string {
	count := len(e.Problems) + e.More
	text := fmt.Sprintf("%d problems with the manifests", count)
	if count == 1 {
		text = "a problem with the manifests"
	}
	if e.Nothing {
		text += ", so nothing was written:"
	} else {
		text += fmt.Sprintf("; %d objects were created and %d updated:", e.Result.Created, e.Result.Updated)
	}
	for _, p := range e.Problems {
		text += "\n  " + p.String()
	}
	if e.More > 0 {
		text += fmt.Sprintf("\n  and %d more", e.More)
	}
	return text
}

func (s *Seeder) fail(p Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) == maxProblems {
		s.more++
		return
	}
	s.problems = append(s.problems, p)
}

// failure returns the problems so far as an error, nil if there are none.
func (s *Seeder) failure(nothing bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) == 0 {
		return nil
	}
	s.sortLocked()
	return &Error{Problems: s.problems, More: s.more, Nothing: nothing, Result: s.result}
}
